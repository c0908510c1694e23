/**
 * Builds what the package runs: TypeScript and the hook file always, the addon where cargo is found and its sources are newer than it.
 *
 * Without the addon the portable backend serves, so a missing or failed native build is said and not fatal, unless
 * TAKEBACK_REQUIRE_NATIVE=1. TAKEBACK_BACKEND=portable leaves the addon alone. When nothing changed it takes about a second.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleHook } from './bundle-hook.mjs';

const top = fileURLToPath(new URL('..', import.meta.url));
const requireNative = process.env.TAKEBACK_REQUIRE_NATIVE === '1';
const TAIL_LINES = 30;

/** Files below `folder`, relative to it. */
function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
}

/** Made from many sources, by bundle-hook.mjs. */
const BUNDLED = ['hook.cjs', 'hook-early.cjs', 'hook-body.cjs'].map((name) => join('cli', name));

/** Removes what an older source left in dist, so that no test runs a file that is gone. */
function pruneDist() {
  for (const built of filesBelow(join(top, 'dist'))) {
    if (BUNDLED.some((file) => built === join(top, 'dist', file))) continue;
    const source = built.slice(join(top, 'dist').length).replace(/(\.d\.ts|\.js)$/, '.ts');
    if (!existsSync(join(top, 'src', source))) rmSync(built, { force: true });
  }
}

function buildTypeScript() {
  pruneDist();
  const tsc = join(top, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: top, stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}

const newest = (files) => Math.max(0, ...files.map((file) => statSync(file).mtimeMs));

function addons() {
  return readdirSync(join(top, 'native'))
    .filter((name) => name.endsWith('.node'))
    .map((name) => join(top, 'native', name));
}

function addonIsNewest() {
  const built = [...addons(), join(top, 'native', 'index.cjs')];
  if (built.length < 2 || !built.every((file) => existsSync(file))) return false;
  const sources = [
    ...filesBelow(join(top, 'native', 'src')),
    ...['native/Cargo.toml', 'native/build.rs', 'Cargo.toml', 'Cargo.lock'].map((name) => join(top, name)),
  ];
  return Math.min(...addons().map((file) => statSync(file).mtimeMs)) >= newest(sources);
}

/** The portable backend serves: said in one line, or the end where the addon is required. */
function withoutAddon(why) {
  console.log(`build: ${why}; the portable backend serves.`);
  if (requireNative) {
    console.error('build: TAKEBACK_REQUIRE_NATIVE=1 asks for the addon.');
    process.exit(1);
  }
}

function buildAddon() {
  if (process.env.TAKEBACK_BACKEND === 'portable') {
    console.log('build: TAKEBACK_BACKEND=portable, so the addon is left alone; the portable backend serves.');
    return;
  }
  if (addonIsNewest()) return;
  if (spawnSync('cargo', ['--version'], { cwd: top }).status !== 0) {
    return withoutAddon('no working cargo found, addon not built');
  }
  console.log('build: building the addon in release mode (a few minutes the first time) ...');
  const { status, stdout, stderr } = spawnSync('npm', ['run', '--silent', 'build:native'], {
    cwd: top,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status === 0) {
    // The copy of an addon that cargo found current may be older than a source that was only touched.
    const now = new Date();
    for (const file of addons()) utimesSync(file, now, now);
    return;
  }
  console.error(`${stdout ?? ''}${stderr ?? ''}`.trimEnd().split('\n').slice(-TAIL_LINES).join('\n'));
  // An addon of older sources must not be taken for this one.
  for (const file of addons()) rmSync(file, { force: true });
  withoutAddon('the build of the addon failed, see above');
}

buildTypeScript();
await bundleHook();
buildAddon();
