/** Public names. No logic. */
export type * from './api.ts';
export type { ErrorCode } from './errors.ts';
export { TakebackError } from './errors.ts';
export type {
  BeginCallOptions,
  CaptureOptions,
  EndCallOptions,
  OpenOptions,
  PlanOptions,
  RedoOptions,
  RestoreOptions,
  RevertOneOptions,
  SessionOptions,
  TimelineOptions,
  UndoOptions,
} from './schemas.ts';
export {
  beginCallOptionsSchema,
  captureOptionsSchema,
  endCallOptionsSchema,
  openOptionsSchema,
  planOptionsSchema,
  redoOptionsSchema,
  restoreOptionsSchema,
  revertOneOptionsSchema,
  sessionOptionsSchema,
  timelineOptionsSchema,
  undoOptionsSchema,
} from './schemas.ts';
export type * from './types.ts';
export { openWorkspace } from './workspace.ts';
