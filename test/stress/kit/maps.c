/*
 * maps: writes through shared memory maps. Reads lines: `map LETTER FOLDER COUNT` maps f0 … of a folder anew, closes the
 * files and stores LETTER over their first 64 bytes; `store LETTER` stores it through the maps that are there. Answers `ok`.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 4096
static char *maps[MOST];
static int count;

static int map(const char *folder, int files) {
  for (int i = 0; i < count; i++) munmap(maps[i], 64);
  for (count = 0; count < files && count < MOST; count++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/f%d", folder, count);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return 0;
    maps[count] = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (maps[count] == MAP_FAILED) return 0;
  }
  return 1;
}

int main(void) {
  char line[4200], folder[4096], letter;
  int files;
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (sscanf(line, "map %c %4095s %d", &letter, folder, &files) == 3) {
      if (!map(folder, files)) return 1;
    } else if (sscanf(line, "store %c", &letter) != 1) {
      return 2;
    }
    for (int i = 0; i < count; i++) memset(maps[i], letter, 64);
    puts("ok");
    fflush(stdout);
  }
  return 0;
}
