/*
 * at-call: runs a program and, at its N-th call of the file system, kills it, lets the call fail, or cuts the power.
 *
 *   at-call [--below DIR]... [--writes] [--log FILE] ACTION PROGRAM [ARG]...
 *   ACTION  count | kill:N | fail:N:ERRNO | from:N:ERRNO (that call and all later ones) | cut:N:FLAG:MOUNT
 *
 * Counted are calls of all threads and children together, from 1, on what lies below one of the folders; with --writes only
 * those that can change something; with an ERRNO only those that can answer it. Counting begins when the program sends
 * signal 0 to process 2147483632, or at once where --at-once is given. kill and cut come before the N-th call is made.
 * FLAG: 1 writes the file system's log out before the shutdown, 2 does not. The log gets a line a call: N name ERRNO,… path.
 *
 * Works by a seccomp filter that asks this process about each such call, so that the count is exact whatever thread calls,
 * and stops where it should; ptrace, and strace with it, counts a thread at a time. Exit code: the program's own, 77 after
 * kill or cut, 78 where it can't work here. Not covered: io_uring, stores through a memory map.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHUTDOWN _IOR('X', 125, uint32_t)
#define ARM 2147483632

/* What a call can answer. */
enum { IO = 1, SPACE = 2, ACCESS = 4, FILES = 8, INTR = 16, XDEV = 32, ROFS = 64, LONG = 128 };
/* Where its path is: a descriptor, a folder's descriptor with a name, a path alone, or two of these. */
enum { FD, AT, PATH };

struct call {
  int nr;
  const char *name;
  int where;
  int writes; /* 2: by its flags */
  int faults;
};

static const struct call calls[] = {
    {SYS_read, "read", FD, 0, IO | INTR},
    {SYS_pread64, "pread64", FD, 0, IO | INTR},
    {SYS_getdents64, "getdents64", FD, 0, IO},
    {SYS_newfstatat, "newfstatat", AT, 0, IO | ACCESS | LONG},
    {SYS_statx, "statx", AT, 0, IO | ACCESS | LONG},
    {SYS_readlinkat, "readlinkat", AT, 0, IO | ACCESS | LONG},
    {SYS_openat, "openat", AT, 2, IO | ACCESS | FILES | INTR | LONG},
    {SYS_openat2, "openat2", AT, 2, IO | ACCESS | FILES | INTR | LONG},
    {SYS_write, "write", FD, 1, IO | SPACE | INTR},
    {SYS_writev, "writev", FD, 1, IO | SPACE | INTR},
    {SYS_pwrite64, "pwrite64", FD, 1, IO | SPACE | INTR},
    {SYS_pwritev, "pwritev", FD, 1, IO | SPACE | INTR},
    {SYS_copy_file_range, "copy_file_range", FD, 1, IO | SPACE | XDEV | INTR},
    {SYS_fsync, "fsync", FD, 1, IO | SPACE | INTR},
    {SYS_fdatasync, "fdatasync", FD, 1, IO | SPACE | INTR},
    {SYS_syncfs, "syncfs", FD, 1, IO | SPACE | INTR},
    {SYS_ftruncate, "ftruncate", FD, 1, IO | SPACE | INTR},
    {SYS_fallocate, "fallocate", FD, 1, IO | SPACE | INTR},
    {SYS_fchmod, "fchmod", FD, 1, IO | ACCESS | ROFS},
    {SYS_fchmodat, "fchmodat", AT, 1, IO | ACCESS | ROFS | LONG},
    {SYS_fchown, "fchown", FD, 1, IO | ACCESS | ROFS},
    {SYS_utimensat, "utimensat", AT, 1, IO | ACCESS | ROFS | LONG},
    {SYS_renameat, "renameat", AT, 1, IO | SPACE | ACCESS | XDEV | ROFS | LONG},
    {SYS_renameat2, "renameat2", AT, 1, IO | SPACE | ACCESS | XDEV | ROFS | LONG},
    {SYS_linkat, "linkat", AT, 1, IO | SPACE | ACCESS | XDEV | ROFS | LONG},
    {SYS_symlinkat, "symlinkat", PATH, 1, IO | SPACE | ACCESS | ROFS | LONG},
    {SYS_unlinkat, "unlinkat", AT, 1, IO | ACCESS | ROFS | LONG},
    {SYS_mkdirat, "mkdirat", AT, 1, IO | SPACE | ACCESS | ROFS | LONG},
#ifdef SYS_open
    {SYS_open, "open", PATH, 2, IO | ACCESS | FILES | INTR | LONG},
    {SYS_rename, "rename", PATH, 1, IO | SPACE | ACCESS | XDEV | ROFS | LONG},
    {SYS_link, "link", PATH, 1, IO | SPACE | ACCESS | XDEV | ROFS | LONG},
    {SYS_symlink, "symlink", PATH, 1, IO | SPACE | ACCESS | ROFS | LONG},
    {SYS_unlink, "unlink", PATH, 1, IO | ACCESS | ROFS | LONG},
    {SYS_rmdir, "rmdir", PATH, 1, IO | ACCESS | ROFS | LONG},
    {SYS_mkdir, "mkdir", PATH, 1, IO | SPACE | ACCESS | ROFS | LONG},
    {SYS_chmod, "chmod", PATH, 1, IO | ACCESS | ROFS | LONG},
#endif
};
#define CALLS (sizeof calls / sizeof *calls)

static const struct {
  const char *name;
  int number, fault;
} faults[] = {
    {"EIO", EIO, IO},          {"ENOSPC", ENOSPC, SPACE}, {"EDQUOT", EDQUOT, SPACE},
    {"EACCES", EACCES, ACCESS}, {"EMFILE", EMFILE, FILES}, {"EINTR", EINTR, INTR},
    {"EXDEV", EXDEV, XDEV},    {"EROFS", EROFS, ROFS},    {"ENAMETOOLONG", ENAMETOOLONG, LONG},
};

enum action { COUNT, KILL, FAIL, FROM, CUT };
static struct {
  enum action action;
  long at, counted;
  int fault, number, armed, writes, mount;
  uint32_t flag;
  const char *below[8];
  int belows;
  FILE *log;
} run;

static void die(const char *what) {
  fprintf(stderr, "at-call: %s: %s\n", what, strerror(errno));
  exit(78);
}

static const struct call *find(int nr) {
  for (size_t i = 0; i < CALLS; i++)
    if (calls[i].nr == nr) return &calls[i];
  return NULL;
}

static void peek(pid_t pid, uint64_t at, void *into, size_t size) {
  struct iovec local = {into, size}, remote = {(void *)at, size};
  if (process_vm_readv(pid, &local, 1, &remote, 1, 0) < 0) memset(into, 0, size);
}

/* A text may end right before an unmapped page: read up to the page's end first. */
static void peek_text(pid_t pid, uint64_t at, char *into, size_t size) {
  memset(into, 0, size);
  size_t first = 4096 - at % 4096;
  peek(pid, at, into, first < size ? first : size - 1);
  if (first < size && memchr(into, 0, first) == NULL) peek(pid, at + first, into + first, size - first - 1);
}

static void link_of(pid_t pid, const char *what, long fd, char *into, size_t size) {
  char name[64];
  snprintf(name, sizeof name, fd < 0 ? "/proc/%d/%s" : "/proc/%d/%s/%ld", pid, what, fd);
  ssize_t n = readlink(name, into, size - 1);
  into[n < 0 ? 0 : n] = 0;
}

static void path_of(const struct seccomp_notif *asked, const struct call *call, char *into, size_t size) {
  const __u64 *args = asked->data.args;
  pid_t pid = asked->pid;
  if (call->where == FD) return link_of(pid, "fd", (int)args[0], into, size);
  static char name[8192];
  int second = call->nr == SYS_symlinkat;
#ifdef SYS_symlink
  second |= call->nr == SYS_symlink;
#endif
  int at = call->where == AT ? (int)args[0] : call->nr == SYS_symlinkat ? (int)args[1] : AT_FDCWD;
  uint64_t text = call->where == AT ? args[1] : call->nr == SYS_symlinkat ? args[2] : second ? args[1] : args[0];
  peek_text(pid, text, name, sizeof name);
  int own, taken = 0;
  if (sscanf(name, "/proc/self/fd/%d%n", &own, &taken) == 1) {
    link_of(pid, "fd", own, into, size);
    strncat(into, name + taken, size - strlen(into) - 1);
  } else if (name[0] == '/') {
    snprintf(into, size, "%s", name);
  } else {
    if (at == AT_FDCWD) link_of(pid, "cwd", -1, into, size);
    else link_of(pid, "fd", at, into, size);
    if (name[0] != 0) strncat(strncat(into, "/", size - strlen(into) - 1), name, size - strlen(into) - 1);
  }
}

static int opens_for_writing(const struct seccomp_notif *asked) {
  uint64_t flags = asked->data.args[2];
#ifdef SYS_open
  if (asked->data.nr == SYS_open) flags = asked->data.args[1];
#endif
  if (asked->data.nr == SYS_openat2) peek(asked->pid, asked->data.args[2], &flags, sizeof flags);
  return (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

/* True where this call is the one that the action is for. */
static int counts(const struct seccomp_notif *asked, const struct call *call) {
  if (!run.armed) return 0;
  int writes = call->writes == 2 ? opens_for_writing(asked) : call->writes;
  int can = call->faults | (call->writes == 2 && writes ? SPACE | ROFS : 0);
  if (run.writes && !writes) return 0;
  if (run.fault != 0 && (can & run.fault) == 0) return 0;
  static char path[16384];
  path_of(asked, call, path, sizeof path);
  int below = run.belows == 0;
  for (int i = 0; i < run.belows; i++) {
    size_t n = strlen(run.below[i]);
    below |= strncmp(path, run.below[i], n) == 0 && (path[n] == '/' || path[n] == 0 || path[n] == ' ');
  }
  if (!below) return 0;
  run.counted++;
  int hit = run.action != COUNT && (run.counted == run.at || (run.action == FROM && run.counted > run.at));
  if (run.log != NULL && (hit || run.action == COUNT)) {
    fprintf(run.log, "%ld %s ", run.counted, call->name);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
      if (can & faults[i].fault) fprintf(run.log, "%s,", faults[i].name);
    fprintf(run.log, " %s\n", path);
    fflush(run.log);
  }
  return hit;
}

/* Answers true where the program is to die now. */
static int answer(int listener, const struct seccomp_notif *asked) {
  struct seccomp_notif_resp response = {.id = asked->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  const struct call *call = find(asked->data.nr);
  if (call == NULL) {
    if ((int)asked->data.args[0] == ARM) run.armed = 1;
  } else if (counts(asked, call)) {
    if (run.action == CUT && ioctl(run.mount, SHUTDOWN, &run.flag) != 0) die("FS_IOC_SHUTDOWN");
    if (run.action == CUT || run.action == KILL) return 1;
    response.flags = 0;
    response.error = -run.number;
  }
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
  return 0;
}

static int filter(void) {
  static struct sock_filter code[2 * CALLS + 8];
  int n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i <= CALLS; i++) {
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i < CALLS ? calls[i].nr : SYS_kill, 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {n, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void parse_action(char *text) {
  char *part[4] = {0};
  int n = 0;
  for (char *word = strtok(text, ":"); word != NULL && n < 4; word = strtok(NULL, ":")) part[n++] = word;
  static const char *names[] = {"count", "kill", "fail", "from", "cut"};
  static const int parts[] = {1, 2, 3, 3, 4};
  for (int i = 0; i < 5; i++)
    if (n == parts[i] && strcmp(part[0], names[i]) == 0) {
      run.action = i;
      if (n > 1) run.at = atol(part[1]);
      if (run.action == CUT) {
        run.flag = atoi(part[2]);
        if ((run.mount = open(part[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) die(part[3]);
      } else if (n == 3) {
        for (size_t k = 0; k < sizeof faults / sizeof *faults; k++)
          if (strcmp(faults[k].name, part[2]) == 0) run.fault = faults[k].fault, run.number = faults[k].number;
        if (run.fault == 0) errno = EINVAL, die(part[2]);
      }
      return;
    }
  errno = EINVAL;
  die("action");
}

static int options(int argc, char **argv) {
  int i = 1;
  for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
    if (strcmp(argv[i], "--writes") == 0) run.writes = 1;
    else if (strcmp(argv[i], "--at-once") == 0) run.armed = 1;
    else if (strcmp(argv[i], "--below") == 0 && run.belows < 8) run.below[run.belows++] = argv[++i];
    else if (strcmp(argv[i], "--log") == 0) {
      if ((run.log = fopen(argv[++i], "we")) == NULL) die(argv[i]);
    } else errno = EINVAL, die(argv[i]);
  }
  if (i + 1 >= argc) errno = EINVAL, die("usage: at-call [OPTION]... ACTION PROGRAM [ARG]...");
  parse_action(argv[i]);
  return i + 1;
}

static int serve(int listener, pid_t child) {
  for (;;) {
    struct pollfd waiting = {listener, POLLIN, 0};
    if (poll(&waiting, 1, -1) < 0) continue;
    if (!(waiting.revents & POLLIN)) break; /* nobody is left */
    struct seccomp_notif asked = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) continue;
    if (answer(listener, &asked)) {
      kill(child, SIGKILL);
      waitpid(child, NULL, 0);
      return 77;
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
  int program = options(argc, argv);
  volatile int *handed = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  *handed = -1;
  int go[2];
  if (handed == MAP_FAILED || pipe2(go, O_CLOEXEC) != 0) die("set-up");
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    char byte;
    int listener = filter();
    *handed = listener < 0 ? -errno - 1 : listener;
    /* Asks too, and so waits until somebody answers. */
    if (listener >= 0 && read(go[0], &byte, 1) == 1) execvp(argv[program], argv + program);
    _exit(78);
  }
  while (*handed == -1 && waitpid(child, NULL, WNOHANG) == 0) usleep(200);
  if (*handed < 0) errno = -*handed - 1, die("seccomp");
  int pidfd = syscall(SYS_pidfd_open, child, 0);
  int listener = syscall(SYS_pidfd_getfd, pidfd, *handed, 0);
  if (listener < 0) die("the filter's descriptor");
  fcntl(listener, F_SETFD, FD_CLOEXEC);
  if (write(go[1], "g", 1) != 1) die("set-up");
  return serve(listener, child);
}
