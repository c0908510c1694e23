/** Public names. No logic. */
export type * from './api.ts';
export type { ErrorCode } from './errors.ts';
export { TakebackError } from './errors.ts';
export type {
  BeginCallOptions,
  CaptureOptions,
  EndCallOptions,
  ForkOptions,
  OpenOptions,
  PlanOptions,
  PurgeOptions,
  RedoOptions,
  RestoreOptions,
  RevertOneOptions,
  RevertOptions,
  SessionKeyOptions,
  SessionOptions,
  StepsOptions,
  TimelineOptions,
  UndoOptions,
} from './schemas.ts';
export {
  beginCallOptionsSchema,
  captureOptionsSchema,
  endCallOptionsSchema,
  forkOptionsSchema,
  openOptionsSchema,
  planOptionsSchema,
  purgeOptionsSchema,
  redoOptionsSchema,
  restoreOptionsSchema,
  revertOneOptionsSchema,
  revertOptionsSchema,
  sessionKeySchema,
  sessionOptionsSchema,
  stepsOptionsSchema,
  timelineOptionsSchema,
  undoOptionsSchema,
} from './schemas.ts';
export type * from './types.ts';
export { openWorkspace, purgeSnapshots } from './workspace.ts';
