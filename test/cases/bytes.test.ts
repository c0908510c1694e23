/** Faults that brought back something else than what was there: line ends, modes, names, times. */
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { digest, NOTHING, planDigest } from '../kit/digest.ts';
import { Story } from '../kit/story.ts';

describeBackends('bytes', (backend) => {
  // B11 · Shelpuk-AI-Technology-Consulting/kitty-bridge PR #172
  test.each([
    ['attributes and autocrlf', ''],
    [
      'a required filter that does not exist',
      "echo '*.txt filter=lfsx'>>.gitattributes; git config filter.lfsx.clean no-such-program; git config filter.lfsx.required true",
    ],
  ])('line ends come back byte for byte, with %s', async (_, more) => {
    await using story = await Story.begin(
      backend,
      `git init -q; git config core.autocrlf true; echo '* text=auto eol=lf'>.gitattributes
       printf 'a\\r\\nb\\r\\n'>crlf.txt; printf 'a\\r\\nb\\nc'>mixed.txt; printf 'a\\r\\n'>gone.txt; ${more}`,
    );
    await story.cp('a');
    await story.t("printf 'zz\\n'>crlf.txt; printf 'zz\\r\\n'>mixed.txt; rm gone.txt");
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: { 'crlf.txt': 'restore', 'mixed.txt': 'restore', 'gone.txt': 'recreate' },
    });
    expect(['crlf.txt', 'mixed.txt', 'gone.txt'].map((path) => story.space.bytes(path))).toEqual([
      'a\r\nb\r\n',
      'a\r\nb\nc',
      'a\r\n',
    ]);
  });

  test('binary, empty, BOM, NUL, ident and keyword content comes back byte for byte', async () => {
    const files: Record<string, string> = {
      bin: Array.from({ length: 256 }, (_, i) => String.fromCharCode(i))
        .join('')
        .repeat(40),
      empty: '',
      bom: '\xef\xbb\xbfx\r\n',
      nul: '\0\0\0',
      ident: '$Id: 1234$ $Revision$\n',
      utf16: '\xff\xfeh\0i\0\r\0\n\0',
      big: 'line\r\n'.repeat(100_000),
    };
    await using story = await Story.begin(
      backend,
      "git init -q; echo '* ident text working-tree-encoding=UTF-16' >.gitattributes",
    );
    for (const [path, bytes] of Object.entries(files)) story.space.write(path, Buffer.from(bytes, 'latin1'));
    await story.cp('a');
    await story.t('for f in bin empty bom; do echo 2 >$f; done; rm nul ident utf16; : >big');
    expect((await story.undo('a')).outcome).toBe('done');
    for (const [path, bytes] of Object.entries(files)) expect(story.space.bytes(path) === bytes, path).toBe(true);
    await story.redo();
    expect(story.space.sh('cat bin empty bom; wc -c <big; ls')).toBe('2\n2\n2\n0\nbig\nbin\nbom\nempty\n');
  });

  // B12 · imtms/tagent-core #77
  test('permission bits come back, and a change of mode alone is planned and told', async () => {
    await using story = await Story.begin(
      backend,
      "echo 'echo hi'>run.sh; cp run.sh tool.sh; chmod 755 run.sh tool.sh",
    );
    await story.cp('a');
    await story.t('echo x>>run.sh; chmod 644 tool.sh', 'rm run.sh');
    const plan = await story.plan('a');
    expect(planDigest(plan)).toEqual({ 'run.sh': 'recreate', 'tool.sh': 'restore' });
    expect(plan.entries.find((entry) => entry.path === 'tool.sh')?.detail).toBe('mode 644 → 755');
    const ino = lstatSync(join(story.space.root, 'tool.sh')).ino;
    const receipt = await story.undo('a');
    expect(digest(receipt)).toEqual({ outcome: 'done', restored: { 'run.sh': 'recreate', 'tool.sh': 'restore' } });
    expect(receipt.restored[1]?.detail).toBe('mode 644 → 755');
    expect(story.space.sh('stat -c "%a %n" *; cat run.sh tool.sh')).toBe('755 run.sh\n755 tool.sh\necho hi\necho hi\n');
    expect(lstatSync(join(story.space.root, 'tool.sh')).ino, 'a mode alone is not a rewrite').toBe(ino);
  });

  test('modes of folders and of files through edits come back whatever the umask', async () => {
    await using story = await Story.begin(
      backend,
      'mkdir -p d/e; echo 1 >d/f; echo 1 >d/e/g; chmod 700 d; chmod 750 d/e; chmod 600 d/f; chmod 400 d/e/g',
    );
    await story.cp('a');
    await story.t('chmod 777 d d/e; rm -f d/f; echo 2 >d/f; chmod 666 d/f; chmod 644 d/e/g; echo 2 >d/e/g');
    const kept = process.umask(0o077);
    try {
      expect((await story.undo('a')).outcome).toBe('done');
    } finally {
      process.umask(kept);
    }
    expect(story.space.sh('stat -c "%a %n" d d/e d/f d/e/g; cat d/f d/e/g')).toBe(
      '700 d\n750 d/e\n600 d/f\n400 d/e/g\n1\n1\n',
    );
    await story.redo();
    expect(story.space.sh('stat -c "%a %n" d d/e d/f d/e/g; cat d/f d/e/g')).toBe(
      '777 d\n777 d/e\n666 d/f\n644 d/e/g\n2\n2\n',
    );
  });

  test('a deleted tree comes back with every mode of its folders', async () => {
    await using story = await Story.begin(
      backend,
      'mkdir -p t/a/b t/empty; echo 1 >t/a/b/f; chmod 711 t; chmod 500 t/a/b; chmod 750 t/empty',
    );
    await story.cp('a');
    await story.t('chmod 700 t/a/b; rm -r t');
    expect((await story.undo('a')).outcome).toBe('done');
    expect(story.space.sh('stat -c "%a %n" t t/a t/a/b t/empty t/a/b/f')).toBe(
      '711 t\n755 t/a\n500 t/a/b\n750 t/empty\n644 t/a/b/f\n',
    );
  });

  // B13 · zed-industries/zed #59099
  test('undo writes the one changed file; all others keep mtime, ctime and inode; a second undo writes nothing', async () => {
    await using story = await Story.begin(backend, 'for i in $(seq 200); do echo $i>f$i; done; touch -d 2020-01-02 f*');
    const stats = () =>
      Array.from({ length: 200 }, (_, i) => `f${i + 1}`)
        .filter((name) => name !== 'f7')
        .map((name) => {
          const { mtimeNs, ctimeNs, ino } = lstatSync(join(story.space.root, name), { bigint: true });
          return `${name} ${mtimeNs} ${ctimeNs} ${ino}`;
        });
    await story.cp('a');
    await story.t('echo x>f7');
    const before = stats();
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { f7: 'restore' } });
    expect(stats()).toEqual(before);
    const f7 = lstatSync(join(story.space.root, 'f7'), { bigint: true });
    expect(digest(await story.undo('a'))).toEqual(NOTHING);
    const again = lstatSync(join(story.space.root, 'f7'), { bigint: true });
    expect([again.ino, again.ctimeNs]).toEqual([f7.ino, f7.ctimeNs]);
    expect(stats()).toEqual(before);
  });

  // B15 · anomalyco/opencode #10210
  test('names outside ASCII are restored, and told as plain UTF-8', async () => {
    await using story = await Story.begin(
      backend,
      "echo 1 >'日本語 メモ.ts'; echo 1 >'naïve.txt'; echo 1 >'🚀.md'; mkdir 'данные'; echo 1 >'данные/x'",
    );
    await story.cp('a');
    await story.t(`for f in *.ts naïve.txt 🚀.md данные/x; do echo 2 >"$f"; done; echo n>'새파일.txt'`);
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: {
        'naïve.txt': 'restore',
        'данные/x': 'restore',
        '日本語 メモ.ts': 'restore',
        '새파일.txt': 'delete',
        '🚀.md': 'restore',
      },
    });
    expect(story.space.sh('cat *.ts naïve.txt 🚀.md данные/x; ls')).toBe(
      '1\n1\n1\n1\nnaïve.txt\nданные\n日本語 メモ.ts\n🚀.md\n',
    );
  });

  test('hostile names are plain names: quotes, newlines, globs, dashes, backslashes, spaces, not UTF-8, 255 bytes', async () => {
    const names = [
      'a"b',
      "it's",
      'new\nline',
      '*',
      '-rf',
      '[x]',
      'back\\slash',
      ' lead',
      'trail ',
      '~',
      '$HOME',
      '%25',
      '#',
      'a\tb',
      'x'.repeat(255),
      'e\u0301',
      '\u00e9',
      ':(glob)**',
    ];
    await using story = await Story.begin(backend, "echo 1 >$'bad\\xffname'; echo 1 >$'\\xe9'");
    for (const name of names) story.space.write(name, '1\n');
    await story.cp('a');
    await story.t(`for f in *; do echo 2 >"./$f"; done; mkdir $'d\\xfe'; echo n>$'d\\xfe/n'`);
    const receipt = await story.undo('a');
    expect(receipt.outcome).toBe('done');
    expect(receipt.restored.length).toBe(names.length + 2 + 1);
    expect(receipt.restored.map((entry) => entry.path)).toContain('bad\udcffname');
    expect(story.space.sh('cat ./* | sort | uniq -c | tr -s " "; ls -A | wc -l')).toBe(
      ` ${names.length + 2} 1\n${names.length + 2 + 1}\n`,
    );
  });
});
