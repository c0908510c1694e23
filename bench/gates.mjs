/**
 * Gates: what must hold of the 10k rows, for CI (`npm run bench -- --gates`). The bars are in `bars.mjs`.
 *
 * A machine that others use decides nothing: a try counts where others used few cores (`noise.mjs`) and what the row is compared
 * with took about the same time in all rounds, and a row passes with the first such try that meets its bar. Where all tries were
 * noisy the row is told as undecided, and doesn't fail. A bar that is known to be missed is told so, and fails above its ceiling.
 */
import { BARS, FACTS, judge, judgeValue, PORTABLE_BARS } from './bars.mjs';
import { busyNow, othersSince } from './noise.mjs';
import {
  borrowRow,
  bracketRow,
  callRows,
  captureRows,
  firstRow,
  longestBlock,
  planRow,
  storeSizes,
  undoRow,
  warmUp,
  watchRows,
} from './rows.mjs';
import { available, measure, quantile } from './stage.mjs';

const TRIES = 3;
const ROUNDS = 7;
/** Of rows that take long. */
const FEW_ROUNDS = 3;
/** What a later try may still better, the best first. */
const RANK = ['met', 'known', 'missed', 'noisy'];

const better = (a, b) => (RANK.indexOf(a) < RANK.indexOf(b) ? a : b);

/** Measures a row until each of its bars is met, or the tries are over. Answers what came of them. */
async function settle(row, { bars, rounds }) {
  const mine = bars.filter((bar) => bar.row === row.name && bar.beside in row.against);
  const said = new Map(mine.map((bar) => [bar, 'noisy']));
  for (let tries = 0; tries < TRIES && [...said.values()].some((now) => now !== 'met'); tries += 1) {
    const before = busyNow();
    const { against } = await measure(row, rounds);
    const others = othersSince(before);
    for (const [bar, was] of said) {
      const now = judge({ ...against[bar.beside], others }, bar);
      // A clear miss stands until a later try is better.
      said.set(bar, better(was, now));
      const shown = `${against[bar.beside].ratio.toFixed(2)} of ${bar.beside}, gate ${bar.most.toFixed(2)}`;
      console.log(`${row.name}: ${shown}, others ${others?.toFixed(1) ?? '?'} cores: ${now}`);
    }
    // What is known to be missed is not tried for again.
    if ([...said.values()].every((now) => now === 'met' || now === 'known')) break;
  }
  return [...said].map(([{ beside }, now]) => ({ what: `${row.name} beside ${beside}`, said: now }));
}

async function settled(stage, options = {}) {
  const { workspace, session } = await stage.open(options);
  await warmUp(stage, session);
  return { workspace, session };
}

async function warmRows(stage) {
  const { workspace, session } = await settled(stage);
  const short = { bars: BARS, rounds: ROUNDS };
  const long = { bars: BARS, rounds: FEW_ROUNDS };
  try {
    const said = [];
    for (const row of [...callRows(stage, session), ...captureRows(stage, session), bracketRow(stage, session)])
      said.push(...(await settle(row, short)));
    said.push(...(await settle(planRow(stage, session), long)), ...(await settle(undoRow(stage, session), long)));
    return [...said, await blocked(stage, session)];
  } finally {
    await workspace.close();
  }
}

async function watchedRows(stage) {
  const { workspace, session } = await settled(stage, { watch: true });
  try {
    const { capabilities } = available(await workspace.capabilities());
    if (!capabilities.watch.on) return [{ what: `watch mode (${capabilities.watch.why})`, said: 'noisy' }];
    const said = [];
    for (const row of watchRows(stage, session)) said.push(...(await settle(row, { bars: BARS, rounds: ROUNDS })));
    return said;
  } finally {
    await workspace.close();
  }
}

async function firstRows(stage) {
  const rows = [firstRow(stage), ...(stage.peers === null ? [] : [borrowRow(stage)])];
  const said = [];
  for (const row of rows) said.push(...(await settle(row, { bars: BARS, rounds: FEW_ROUNDS })));
  for (const row of rows) row.clean();
  return said;
}

async function portableRows(stage) {
  const { workspace, session } = await settled(stage);
  try {
    const said = [];
    for (const row of callRows(stage, session))
      said.push(...(await settle(row, { bars: PORTABLE_BARS, rounds: FEW_ROUNDS })));
    return said.map(({ what, said: now }) => ({ what: `portable: ${what}`, said: now }));
  } finally {
    await workspace.close();
  }
}

function fact(value, { what, unit, most, known }) {
  const said = judgeValue(value, { most, known });
  console.log(`${what}: ${value.toFixed(2)} ${unit}, gate ${most}: ${said}`);
  return { what, said };
}

async function blocked(stage, session) {
  const { what, unit, most } = FACTS.blockedMs;
  let said = 'noisy';
  for (let tries = 0; tries < TRIES && said !== 'met'; tries += 1) {
    const before = busyNow();
    const ms = quantile(await longestBlock(stage, session), 0.5);
    const others = othersSince(before);
    said = better(said, judge({ ratio: ms, spread: 1, others }, FACTS.blockedMs));
    console.log(`${what}: ${ms.toFixed(2)} ${unit}, gate ${most}, others ${others?.toFixed(1) ?? '?'} cores: ${said}`);
  }
  return { what, said };
}

async function bytes(stage) {
  const { firstBytes, firstFloorBytes, nothingBytes, changedBytes, changedFloorBytes } = await storeSizes(stage);
  const said = [fact(nothingBytes, FACTS.nothingBytes)];
  if (changedFloorBytes !== null) said.push(fact(changedBytes - changedFloorBytes, FACTS.changedBytes));
  if (firstFloorBytes !== null) said.push(fact(firstBytes / firstFloorBytes, FACTS.firstRatio));
  return said;
}

/** Answers whether no gate was missed. */
export async function runGates(stageOf) {
  const stage = stageOf('native');
  const said = [
    ...(await firstRows(stage)),
    ...(await warmRows(stage)),
    ...(await watchedRows(stage)),
    ...(await bytes(stage)),
    ...(await portableRows(stageOf('portable'))),
  ];
  console.log();
  for (const one of RANK)
    for (const { what } of said.filter(({ said: now }) => now === one)) console.log(`${one}: ${what}`);
  return said.every(({ said: now }) => now !== 'missed');
}
