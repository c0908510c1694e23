/** Public names. No logic. */
export type * from './api.ts';
export type { ErrorCode } from './errors.ts';
export { TakebackError } from './errors.ts';
export { auditHook } from './hooks/audit.ts';
export type { CheckpointHookOptions, HookCallFacts } from './hooks/checkpoint.ts';
export { checkpointHook, checkpointHookOptionsSchema, hookCallFactsSchema } from './hooks/checkpoint.ts';
export { toolResultsDir } from './hooks/layout.ts';
export type { OffloadOptions } from './hooks/offload.ts';
export { offloadHook, offloadOptionsSchema } from './hooks/offload.ts';
export { offloadGuidance } from './hooks/offload-text.ts';
export { HookRegistry } from './hooks/registry.ts';
export type { WarnLogger } from './hooks/report.ts';
export { safeName } from './hooks/safe-name.ts';
export type * from './hooks/tool.ts';
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
export type { FilePlanWriter, PlanWriterOptions } from './tools/plan-writer.ts';
export { filePlanWriter, planWriterOptionsSchema } from './tools/plan-writer.ts';
export type { ReadFileOptions } from './tools/read-file.ts';
export { readFileInputSchema, readFileOptionsSchema, readFileTool } from './tools/read-file.ts';
export type { FileProblem, RemovedFiles } from './tools/session-files.ts';
export type { DeletedSession, SessionManagerOptions } from './tools/session-manager.ts';
export {
  collectOptionsSchema,
  newMessageSchema,
  newSessionSchema,
  SessionManager,
  sessionManagerOptionsSchema,
} from './tools/session-manager.ts';
export type { StoredMessage, StoredSession } from './tools/session-store.ts';
export type { TodoWriteOptions } from './tools/todo-write.ts';
export { todoWriteInputSchema, todoWriteOptionsSchema, todoWriteTool } from './tools/todo-write.ts';
export type { PlanWriter, TodoItem, TodoStore } from './tools/todos.ts';
export { todoItemSchema, todoListSchema } from './tools/todos.ts';
export type { Tool } from './tools/tool.ts';
export type * from './types.ts';
export { openWorkspace, purgeSnapshots } from './workspace.ts';
