/** Ids that the command makes: short enough to type, in the order in which they were made. */
import { randomBytes } from 'node:crypto';

/** Local date and time and four random hex digits: `20261130-155801-9f3c`. */
export function newId(now: number): string {
  const date = new Date(now - new Date(now).getTimezoneOffset() * 60_000);
  const digits = date.toISOString().replaceAll(/[-:T]/g, '');
  return `${digits.slice(0, 8)}-${digits.slice(8, 14)}-${randomBytes(2).toString('hex')}`;
}
