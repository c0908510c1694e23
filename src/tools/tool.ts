/** What the tools of this folder look like to a host: enough to offer one to a model and to run it. Types only. */
import type { z } from 'zod';

export interface Tool<S extends z.ZodType = z.ZodType> {
  readonly name: string;
  /** For the model. */
  readonly description: string;
  /** Of the input, as zod and as a Standard Schema. */
  readonly schema: S;
  /** The same as JSON Schema. */
  readonly jsonSchema: unknown;
  /**
   * Checks the input and does the work. Answers the text for the model.
   *
   * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for a wrong input, and what the tool says; the message is fit for the model
   */
  execute(input: unknown): Promise<string>;
}
