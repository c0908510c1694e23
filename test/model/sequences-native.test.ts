/** Random sequences against the naive model on the native backend. The suite is `sequences.ts`. */
import { sequences } from './sequences.ts';

sequences('native');
