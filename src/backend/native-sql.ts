/**
 * The SQL driver over the addon: values packed as docs/addon.md says, one buffer each way. The work is
 * `native/src/sql.rs`, on a thread of the database's own.
 */
import { TakebackError } from '../errors.ts';
import { encodeName } from '../rel-path.ts';
import { Reader, Writer } from '../wire.ts';
import { type Addon, type AddonDatabase, settle, settleClose } from './addon.ts';
import type { DatabaseOptions, SqlDriver, SqlRow, SqlStatement, SqlValue } from './backend.ts';
import { atDatabase } from './sql-fault.ts';

const DEFAULT_BUSY_TIMEOUT_MS = 10_000;
const TYPE = { null: 0, integer: 1, real: 2, text: 3, blob: 4 } as const;
const MIN_INTEGER = -(2n ** 63n);
const MAX_INTEGER = 2n ** 63n - 1n;

function writeReal(writer: Writer, value: number): void {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  writer.u8(TYPE.real).u64(bits.getBigUint64(0));
}

function writeValue(writer: Writer, value: SqlValue): void {
  if (value === null) writer.u8(TYPE.null);
  else if (typeof value === 'string') writer.u8(TYPE.text).text(value);
  else if (typeof value === 'number') {
    if (!Number.isSafeInteger(value)) writeReal(writer, value);
    // Alike in their bits; a BigInt of each costs more than the rest of it.
    else if (value >= 0) writer.u8(TYPE.integer).u64(value);
    else writer.u8(TYPE.integer).i64(BigInt(value));
  } else if (typeof value === 'bigint' && value >= MIN_INTEGER && value <= MAX_INTEGER) {
    writer.u8(TYPE.integer).i64(value);
  } else if (value instanceof Uint8Array) writer.u8(TYPE.blob).bytes(value);
  else throw new TakebackError('ERR_INVALID_ARGUMENT', `SQLite can't hold a parameter such as ${String(value)}`);
}

function writeParams(writer: Writer, params: readonly SqlValue[]): void {
  writer.u32(params.length);
  for (const value of params) writeValue(writer, value);
}

function readValue(reader: Reader): SqlValue {
  const type = reader.u8();
  switch (type) {
    case TYPE.null:
      return null;
    case TYPE.integer:
      return reader.integer();
    case TYPE.real:
      return reader.raw(8).readDoubleLE();
    case TYPE.text:
      return reader.text();
    case TYPE.blob:
      return reader.bytes();
    default:
      throw new TakebackError('ERR_INTERNAL', `the addon answered a value of type ${type}`);
  }
}

function readRows(reader: Reader): SqlRow[] {
  const count = reader.u32();
  const columns = reader.u32();
  const rows: SqlRow[] = [];
  for (let i = 0; i < count; i++) {
    const row: SqlValue[] = [];
    for (let column = 0; column < columns; column++) row.push(readValue(reader));
    rows.push(row);
  }
  return rows;
}

export class NativeDatabase implements SqlDriver {
  readonly #handle: AddonDatabase;
  readonly #file: string;

  private constructor(handle: AddonDatabase, file: string) {
    this.#handle = handle;
    this.#file = file;
  }

  static async open(addon: Addon, { file, busyTimeoutMs }: DatabaseOptions): Promise<NativeDatabase> {
    const timeout = busyTimeoutMs ?? DEFAULT_BUSY_TIMEOUT_MS;
    return new NativeDatabase(await atDatabase(file, settle(addon.openDatabase(encodeName(file), timeout))), file);
  }

  async exec(sql: string): Promise<void> {
    await atDatabase(this.#file, settle(this.#handle.exec(sql)));
  }

  async query(sql: string, params: readonly SqlValue[] = []): Promise<SqlRow[]> {
    const writer = new Writer();
    writeParams(writer, params);
    const answer = settle(this.#handle.query(sql, writer.done()));
    return readRows(new Reader(await atDatabase(this.#file, answer)));
  }

  async transaction(statements: readonly SqlStatement[]): Promise<SqlRow[][]> {
    const writer = new Writer().u32(statements.length);
    for (const { sql, params, many } of statements) {
      writer.bytes(Buffer.from(sql)).u8(many === undefined ? 0 : 1);
      if (many === undefined) writeParams(writer, params ?? []);
      else {
        writer.u32(many.length);
        for (const list of many) writeParams(writer, list);
      }
    }
    const answer = settle(this.#handle.transaction(writer.done()));
    const reader = new Reader(await atDatabase(this.#file, answer));
    return Array.from({ length: reader.u32() }, () => readRows(reader));
  }

  async close(): Promise<void> {
    await atDatabase(this.#file, settleClose(this.#handle));
  }
}
