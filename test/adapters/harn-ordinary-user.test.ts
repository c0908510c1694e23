/**
 * Files of the oracle that root's rights would hide the point of. Runs as uid 65534; a file of its own, so that the process
 * that drops its rights is this file's only.
 */
import { test } from 'vitest';
import { availableBackends, describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { harnDriver } from './harn/drivers.ts';
import { play, scenes } from './harn/oracle.ts';

const NOBODY = 65534;
// The backends were probed by the import above, as root still.
if (availableBackends.length > 0 && process.getuid?.() === 0) {
  process.setgroups?.([]);
  process.setgid?.(NOBODY);
  process.setuid?.(NOBODY);
}

describeBackends('the oracle, as an ordinary user', (backend) => {
  test.each(scenes().filter(({ ordinaryUser }) => ordinaryUser))('$claim', async (scene) => {
    await using space = new Space();
    const driver = harnDriver(scene, space, backend);
    await play(scene, space, driver).finally(() => driver.close());
  });
});
