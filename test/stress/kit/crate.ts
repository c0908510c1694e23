/** The test program of the Rust crate, built once: its attacks run in TMPDIR, here on one file system after another. */
import { spawn, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const TOP = fileURLToPath(new URL('../../..', import.meta.url));

export interface TestProgram {
  /** Null where it can't be built here. */
  readonly program: string | null;
  readonly missing: string;
}

/** `profile`: none for what `cargo test` builds. */
export function testProgram(...profile: readonly '--release'[]): TestProgram {
  const args = ['test', '--package', 'takeback-native', '--lib', '--locked', '--no-run', '--message-format=json'];
  const built = spawnSync('cargo', [...args, ...profile], { cwd: TOP, encoding: 'utf8', maxBuffer: 256 * 1024 * 1024 });
  if (built.status !== 0) {
    const missing = `cargo: ${built.error?.message ?? built.stderr.trim().split('\n').at(-1)}`;
    if (process.env.TAKEBACK_REQUIRE_NATIVE === '1') throw new Error(missing);
    return { program: null, missing };
  }
  const programs = built.stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as { executable?: string | null })
    .flatMap(({ executable }) => executable ?? []);
  if (programs.length !== 1) throw new Error(`cargo built ${programs.length} test programs`);
  return { program: programs[0] as string, missing: '' };
}

/** Runs the tests whose names hold one of the words; answers the lines that tell of rounds. Throws where one failed, or none ran. */
export async function runTests(
  program: string,
  tests: readonly string[],
  options: { folder: string; env: Readonly<Record<string, string>> },
): Promise<string[]> {
  const child = spawn(program, [...tests, '--nocapture', '--test-threads=2'], {
    env: { ...process.env, ...options.env, TMPDIR: options.folder },
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (out += text));
  const code = await new Promise((resolve) => child.on('close', resolve));
  if (code !== 0 || !/test result: ok\. [1-9]/.test(out)) throw new Error(`exit ${code}: ${out.slice(-4000)}`);
  return out.split('\n').filter((line) => line.includes(' rounds'));
}
