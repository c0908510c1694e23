/** Random sequences against the naive model on the portable backend. The suite is `sequences.ts`. */
import { sequences } from './sequences.ts';

sequences('portable');
