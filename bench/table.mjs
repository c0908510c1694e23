/** A saved run as text: the README's table, and what `npm run bench` prints. Pure. */

function ms(value) {
  return value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString('en-US');
}

function comparisons(against, { floors }) {
  return Object.entries(against)
    .filter(([name]) => name.startsWith('floor ') === floors)
    .map(([name, { p50Ms, ratio }]) => ({ name, p50Ms, ratio }));
}

/** "3.1× faster", or slower. */
function faster(ratio) {
  return ratio <= 1 ? `${(1 / ratio).toFixed(1)}× faster` : `${ratio.toFixed(1)}× slower`;
}

/** Lines of a run for a terminal. */
export function printed({ size, backend, rows, store, blockedMs, busyRatio, firstMs, bytesAnEntry }) {
  const lines = [`${backend}, ${size}`];
  for (const { name, p50Ms, p99Ms, against } of rows) {
    const floors = comparisons(against, { floors: true }).map(
      ({ name: floor, ratio }) => `${ratio.toFixed(2)} of ${floor}`,
    );
    const peers = comparisons(against, { floors: false }).map(
      ({ name: peer, p50Ms: theirs, ratio }) => `${faster(ratio)} than ${peer} (${ms(theirs)})`,
    );
    const beside = [...floors, ...peers].join(', ');
    lines.push(`  ${name.padEnd(38)} ${ms(p50Ms).padStart(7)} ms  p99 ${ms(p99Ms).padStart(7)}  ${beside}`);
  }
  if (firstMs !== undefined) lines.push(`  first capture, once, all in git         ${ms(firstMs).padStart(7)} ms`);
  if (bytesAnEntry !== undefined)
    lines.push(`  memory of the open tree                 ${bytesAnEntry.toFixed(0)} bytes an entry`);
  if (busyRatio !== undefined) lines.push(`  begin of a call, libuv's pool busy      ${busyRatio.toFixed(2)} of idle`);
  if (blockedMs !== undefined)
    lines.push(`  JS thread held by a call                ${blockedMs.toFixed(2)} ms at most (median of calls)`);
  if (store !== undefined) lines.push(...storeLines(store));
  return lines;
}

function storeLines(store) {
  const mega = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
  const kilo = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
  const { firstBytes, firstFloorBytes, nothingBytes, runningBytes, captures, changedBytes, changedFloorBytes } = store;
  const first = firstFloorBytes === null ? '' : `, ${(firstBytes / firstFloorBytes).toFixed(3)} of the frames alone`;
  const frames = changedFloorBytes === null ? '' : ` (frames alone: ${kilo(changedFloorBytes)})`;
  return [
    `  store after the first capture           ${mega(firstBytes)}${first}`,
    `  one more capture, nothing / 100 changed ${kilo(nothingBytes)} / ${kilo(changedBytes)}${frames}`,
    `  ${captures} more with nothing, before the close   ${kilo(runningBytes)}, the database's log included`,
  ];
}

const NONE = '–';

/** The README's table, of the 10k tree. */
export function markdown({ runs }) {
  const of = (backend) => runs.find((run) => run.backend === backend && run.size === '10k');
  const [native, portable] = [of('native'), of('portable')];
  const lines = ['| | native | of the floor | beside | portable |', '|---|---:|---:|---|---:|'];
  for (const { name, p50Ms, against } of native.rows) {
    const other = portable?.rows.find((row) => row.name === name);
    const [floor] = comparisons(against, { floors: true });
    const [peer] = comparisons(against, { floors: false });
    const cells = [
      name,
      ms(p50Ms),
      floor === undefined ? NONE : floor.ratio.toFixed(2),
      peer === undefined ? NONE : `${peer.name} ${ms(peer.p50Ms)}`,
      other === undefined ? NONE : ms(other.p50Ms),
    ];
    lines.push(`| ${cells.join(' | ')} |`);
  }
  return lines.join('\n');
}

export const TABLE_START = '<!-- bench: written by `npm run bench -- --readme` -->';
export const TABLE_END = '<!-- bench end -->';

/** The README with the table of a run in the place of the one before. */
export function withTable(readme, run) {
  const from = readme.indexOf(TABLE_START);
  const to = readme.indexOf(TABLE_END);
  if (from < 0 || to < from) throw new Error(`README.md lacks the lines ${TABLE_START} … ${TABLE_END}`);
  return `${readme.slice(0, from + TABLE_START.length)}\n\n${markdown(run)}\n\n${readme.slice(to)}`;
}
