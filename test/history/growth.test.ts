/**
 * Undo, log and their like cost what the newest turns cost, whatever lies before them. A long history is written into the
 * timeline directly: turns that write one file back and forth, as sessions would have recorded them.
 *
 * What is counted is records that come out of the timeline, which no busy machine changes; times are compared too, each
 * the best of several. TAKEBACK_SLOW=1 runs 10,000 turns instead of 1,000.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import { openBackend } from '../../src/backend/open.ts';
import { workspaceDir } from '../../src/data-dir.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { OpenEngine } from '../../src/engine/open.ts';
import { acquireEngine, releaseEngine } from '../../src/engine/registry.ts';
import { currentOwner } from '../../src/process-owner.ts';
import { openTimeline } from '../../src/timeline/sqlite.ts';
import type { Append, SessionRecord, Timeline } from '../../src/timeline/timeline.ts';
import { availableBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

const TURNS = process.env.TAKEBACK_SLOW === '1' ? 10_000 : 1_000;
const FEW = 10;

const newId = (): string => randomBytes(16).toString('hex');

/** A workspace with so many turns, of which the first two were made by hand. `f` ends as it was after the second. */
async function history(backend: BackendKind, turns: number): Promise<Story> {
  const story = await Story.begin(backend, 'printf start >f');
  for (const n of [0, 1]) {
    await story.cp(`m${n}`);
    got(await story.session().beginCall(`c${n}`, { stepId: `s${n}` }));
    story.space.sh(`printf ${n} >f`);
    got(await story.session().endCall(`c${n}`));
  }
  await story.workspace.close();
  const opened = await openBackend(backend);
  const timeline = await openTimeline(opened.backend, {
    dir: workspaceDir(story.space.dataDir, story.space.root),
    root: story.space.root,
    networkFileSystem: false,
  });
  try {
    await append(timeline, turns);
  } finally {
    await timeline.close();
    await opened.backend.close();
  }
  await story.reopen();
  return story;
}

async function append(timeline: Timeline, turns: number): Promise<void> {
  const session = (await timeline.findSession({ threadId: 's1', tenantId: null })) as SessionRecord;
  const [, change] = await timeline.rows(0);
  if (change === undefined) throw new Error('the second turn changed nothing');
  const { path, before, after } = change;
  const made = (await timeline.boundaries(session.id))[0];
  if (made === undefined) throw new Error('there is no boundary');
  const { root, head } = made;
  let { seq } = await timeline.head();
  const next = async (kind: 'capture' | 'begin' | 'end', more: Partial<Append>): Promise<void> => {
    const observation = { id: newId(), kind, createdAt: 0 };
    seq = (await timeline.append({ expectSeq: seq, observation, durable: false, ...more })).seq;
  };
  for (let n = 2; n < turns; n++) {
    const boundary = { session: session.id, boundaryId: `m${n}`, label: null, createdAt: Date.now(), root, head };
    await next('capture', { boundary });
    const invocation = await timeline.nextInvocation();
    const beginCall = {
      ...{ invocation, session: session.id, callId: `c${n}`, stepId: `s${n}`, turnSeq: seq, owner: currentOwner() },
      ...{ tool: null, parent: null, detached: false, paths: null, beganAt: 0 },
    };
    await next('begin', { beginCall });
    const end = { invocation, state: 'ended', endedAt: 0, sideEffect: null, isError: false } as const;
    const versions = n % 2 === 0 ? { before: after, after: before } : { before, after };
    await next('end', { endCalls: [end], changes: [{ path, ...versions, flags: 0 }] });
  }
}

/** Counts the records that the timeline answers. */
function counted(engine: Engine): { records: number } {
  const count = { records: 0 };
  const { timeline } = engine;
  const proxy = new Proxy(timeline, {
    get(target, name: keyof Timeline) {
      const member = target[name];
      if (typeof member !== 'function') return member;
      return async (...args: unknown[]) => {
        const answer = await (member as (...given: unknown[]) => unknown).apply(target, args);
        count.records += Array.isArray(answer) ? answer.length : 1;
        return answer;
      };
    },
  });
  Object.defineProperty(engine, 'timeline', { value: proxy });
  return count;
}

interface Side {
  readonly story: Story;
  readonly engine: Engine;
  readonly count: { records: number };
}

async function side(backend: BackendKind, turns: number): Promise<Side> {
  const story = await history(backend, turns);
  const { root, dataDir } = story.space;
  // The workspace is open in this process: this joins its engine.
  const engine = await acquireEngine({ root, dataDir, backend } as OpenEngine);
  return { story, engine, count: counted(engine) };
}

/** Records read, and the best time of several runs in milliseconds. */
async function cost({ story, count }: Side, work: (story: Story) => Promise<void>): Promise<[number, number]> {
  let best = Number.POSITIVE_INFINITY;
  let records = 0;
  for (let run = 0; run < 7; run++) {
    count.records = 0;
    const started = performance.now();
    await work(story);
    best = Math.min(best, performance.now() - started);
    records = count.records;
  }
  return [records, best];
}

for (const backend of availableBackends) {
  describe(`growth [${backend}]`, () => {
    let few: Side;
    let many: Side;

    beforeAll(async () => {
      few = await side(backend, FEW);
      many = await side(backend, TURNS);
    }, 900_000);

    afterAll(async () => {
      for (const { story, engine } of [few, many]) {
        await releaseEngine(engine);
        await story[Symbol.asyncDispose]();
      }
    });

    const works: Record<string, (story: Story) => Promise<void>> = {
      'undo and redo': async (story) => {
        expect(got(await story.session().undo()).outcome).toBe('done');
        expect(got(await story.session().redo()).outcome).toBe('done');
      },
      log: async (story) => {
        expect(got(await story.session().timeline({ limit: 5 })).items.length).toBeGreaterThan(5);
      },
      steps: async (story) => {
        expect(got(await story.session().steps({ limit: 5 })).steps).toHaveLength(5);
      },
      'plan of the newest turn': async (story) => {
        const [newest] = got(await story.session().timeline({ limit: 1 })).items;
        if (newest?.type !== 'boundary') throw new Error('no boundary');
        expect(got(await story.session().plan(newest.boundaryId)).entries).toHaveLength(1);
      },
      'diff of the newest turn': async (story) => {
        const [newest] = got(await story.session().timeline({ limit: 1 })).items;
        if (newest?.type !== 'boundary') throw new Error('no boundary');
        expect(got(await story.session().diff(newest.position)).stats).toMatchObject({ files: 1 });
      },
      'revert to the step before the newest and unrevert': async (story) => {
        const { items } = got(await story.session().timeline({ limit: 2 }));
        const step = items.find((item) => item.type === 'call');
        if (step?.type !== 'call' || step.stepId === undefined) throw new Error('no step');
        expect(got(await story.session().revert({ messageId: step.stepId })).outcome).toBe('done');
        expect(got(await story.session().unrevert()).outcome).toBe('done');
      },
    };

    for (const [name, work] of Object.entries(works)) {
      test(`${name}: within twice of its cost at ${FEW} turns when there are ${TURNS}`, async () => {
        const [fewRecords, fewMs] = await cost(few, work);
        const [manyRecords, manyMs] = await cost(many, work);
        console.info(JSON.stringify({ name, backend, turns: TURNS, fewRecords, manyRecords, fewMs, manyMs }));
        // Records read are the claim; times are printed, for they say more of the machine's other work than of ours.
        expect(manyRecords).toBeLessThanOrEqual(2 * fewRecords);
      });
    }

    test(`a revert over all ${TURNS} turns, and back`, async () => {
      const { story } = many;
      expect(got(await story.session().revert({ messageId: 'm0' })).outcome).toBe('done');
      expect(story.space.read('f')).toBe('start');
      expect(got(await story.session().unrevert()).outcome).toBe('done');
      expect(story.space.read('f')).toBe(TURNS % 2 === 0 ? '1' : '0');
    }, 60_000);
  });
}
