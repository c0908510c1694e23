/** Runs `agent.mjs`: other processes on the same root and store, to be waited for or killed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { OpenOptions } from '../../src/index.ts';

const AGENT = fileURLToPath(new URL('agent.mjs', import.meta.url));

/** `[method, ...args]`, as agent.mjs tells. */
export type AgentStep = readonly [string, ...unknown[]];

export interface AgentLine {
  readonly step: string;
  readonly available?: boolean;
  readonly reason?: string;
  // biome-ignore lint/suspicious/noExplicitAny: what a method answered, as JSON
  readonly result?: any;
  readonly code?: string;
  readonly message?: string;
}

export class Agent {
  readonly process: ChildProcess;
  readonly lines: AgentLine[] = [];
  /** Resolves with the exit code, or null where a signal ended it. */
  readonly ended: Promise<number | null>;
  #waiting: (() => void)[] = [];
  #errors = '';

  constructor(open: OpenOptions, steps: readonly AgentStep[], env: NodeJS.ProcessEnv = process.env) {
    this.process = spawn(process.execPath, [AGENT, JSON.stringify({ open, steps })], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env,
    });
    let rest = '';
    this.process.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const parts = (rest + text).split('\n');
      rest = parts.pop() as string;
      for (const part of parts) this.lines.push(JSON.parse(part) as AgentLine);
      this.#wake();
    });
    this.process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors += text;
    });
    this.ended = new Promise((resolve) => {
      this.process.on('close', (code) => {
        resolve(code);
        this.#wake();
      });
    });
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** Waits for a line of this step. */
  async line(step: string): Promise<AgentLine> {
    for (;;) {
      const found = this.lines.find((line) => line.step === step);
      if (found !== undefined) return found;
      if (this.process.exitCode !== null || this.process.signalCode !== null)
        throw new Error(`the agent ended without ${step}: ${JSON.stringify(this.lines)} ${this.#errors}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Waits for the end; throws where it wasn't a good one. */
  async done(): Promise<readonly AgentLine[]> {
    const code = await this.ended;
    if (code !== 0) throw new Error(`the agent ended with ${code}: ${JSON.stringify(this.lines)} ${this.#errors}`);
    return this.lines;
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.ended;
  }
}
