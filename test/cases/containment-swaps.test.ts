/**
 * Containment, part 1: something else stands at a path, or at a folder above it, when an operation is planned, or when the
 * plan is made and nothing is written yet. A row is an attack at a place at a moment; each has seven cases, one an act.
 */
import { describeResolvers, type Row, testRows } from '../kit/containment.ts';

/** What the turn does; the operation does the opposite. */
const ACTS = {
  'd/e/f': 'echo turn >d/e/f',
  'd/e/gone': 'rm d/e/gone',
  'd/e/new': 'echo turn >d/e/new',
  'd/e/box': 'rmdir d/e/box',
  'd/e/made': 'mkdir d/e/made',
  'd/e/mode': 'chmod 700 d/e/mode',
  'd/e/link': 'ln -sfn other d/e/link',
} as const;
type Path = keyof typeof ACTS;
const PATHS = Object.keys(ACTS) as Path[];

const SETUP = 'mkdir -p d/e/box d/e/mode; echo base >d/e/f; echo base >d/e/gone; ln -s target d/e/link';
/** The same names outside, so that whoever is led there finds what he looks for. */
const OUTSIDE =
  'mkdir -p ../out/d/e/box ../out/d/e/made ../out/d/e/mode; echo outside | tee ../out/d/e/gone >../out/d/e/new; ln -s out ../out/d/e/link';

/** Shell: does it at a path, `up` the way from its folder to the folder that holds the root. */
const ATTACKS = {
  'a symlink out of the root': (path: string, up: string) => `rm -rf ${path}; ln -sT ${up}/out/${path} ${path}`,
  'a symlink to an absolute path outside': (path: string) =>
    `rm -rf ${path}; ln -sT "$(realpath ..)/out/${path}" ${path}`,
  'a symlink to where it was moved': (path: string, up: string) => {
    const moved = `moved-${path.replaceAll('/', '-')}`;
    return `test ! -e ${path} || mv ${path} ../out/${moved}; rm -rf ${path}; ln -sT ${up}/out/${moved} ${path}`;
  },
  'a FIFO': (path: string) => `rm -rf ${path}; mkfifo ${path}`,
  'a file': (path: string) => `rm -rf ${path}; echo foreign >${path}`,
  'another folder': (path: string) => `rm -rf ${path}; mkdir ${path}`,
} as const;
type Attack = keyof typeof ATTACKS;

const PLACES = {
  target: (attack: Attack) => PATHS.map((path) => ATTACKS[attack](path, '../../..')).join('; '),
  parent: (attack: Attack) => ATTACKS[attack]('d/e', '../..'),
  grandparent: (attack: Attack) => ATTACKS[attack]('d', '..'),
};
type Place = keyof typeof PLACES;

/** Each path of the table, in its order: replaced, recreated, deleted, folder made, folder removed, mode, link. */
const said = {
  R: 'refused: changed-outside-session',
  S: 'skipped: already-matches',
  F: 'failed: walk-failed',
  r: 'restored: recreate',
  d: 'restored: delete',
} as const;

/** `planned`: it stands there when the plan is made. `late`: when the plan is made already. */
const TABLE: readonly (readonly [moment: 'planned' | 'late', attack: Attack, place: Place, says: string])[] = [
  ['planned', 'a symlink out of the root', 'target', 'RRRRRRR'],
  ['planned', 'a symlink out of the root', 'parent', 'RRSRSRR'],
  ['planned', 'a symlink out of the root', 'grandparent', 'RRSRSRR'],
  ['planned', 'a symlink to an absolute path outside', 'target', 'RRRRRRR'],
  ['planned', 'a symlink to an absolute path outside', 'parent', 'RRSRSRR'],
  ['planned', 'a symlink to an absolute path outside', 'grandparent', 'RRSRSRR'],
  ['planned', 'a symlink to where it was moved', 'target', 'RRRRRRR'],
  ['planned', 'a symlink to where it was moved', 'parent', 'RRSRSRR'],
  ['planned', 'a symlink to where it was moved', 'grandparent', 'RRSRSRR'],
  ['planned', 'a FIFO', 'target', 'RRRRRRR'],
  ['planned', 'a FIFO', 'parent', 'RRSRSRR'],
  ['planned', 'a FIFO', 'grandparent', 'RRSRSRR'],
  ['planned', 'a file', 'target', 'RRRRRRR'],
  ['planned', 'a file', 'parent', 'RRSRSRR'],
  ['planned', 'a file', 'grandparent', 'RRSRSRR'],
  ['planned', 'another folder', 'target', 'RRRSdSR'],
  ['planned', 'another folder', 'parent', 'RrSrSRR'],
  ['planned', 'another folder', 'grandparent', 'RRSRSRR'],
  ['late', 'a symlink out of the root', 'target', 'RRRRRRR'],
  ['late', 'a symlink out of the root', 'parent', 'FFFFFFF'],
  ['late', 'a symlink out of the root', 'grandparent', 'FFFFFFF'],
  ['late', 'a symlink to an absolute path outside', 'target', 'RRRRRRR'],
  ['late', 'a symlink to an absolute path outside', 'parent', 'FFFFFFF'],
  ['late', 'a symlink to an absolute path outside', 'grandparent', 'FFFFFFF'],
  ['late', 'a symlink to where it was moved', 'target', 'RRRRRRR'],
  ['late', 'a symlink to where it was moved', 'parent', 'FFFFFFF'],
  ['late', 'a symlink to where it was moved', 'grandparent', 'FFFFFFF'],
  ['late', 'a FIFO', 'target', 'RRRRRRR'],
  ['late', 'a FIFO', 'parent', 'FFFFFFF'],
  ['late', 'a FIFO', 'grandparent', 'FFFFFFF'],
  ['late', 'a file', 'target', 'RRRRRRR'],
  ['late', 'a file', 'parent', 'FFFFFFF'],
  ['late', 'a file', 'grandparent', 'FFFFFFF'],
  ['late', 'another folder', 'target', 'RRRRdRR'],
  ['late', 'another folder', 'parent', 'RrRrRRR'],
  ['late', 'another folder', 'grandparent', 'RFRFRRR'],
];

function rowOf([moment, attack, place, letters]: (typeof TABLE)[number]): Row {
  const says = Object.fromEntries(PATHS.map((path, i) => [path, said[letters[i] as keyof typeof said]]));
  return {
    label: `${attack} at the ${place}, ${moment}`,
    setup: `${SETUP}; ${OUTSIDE}`,
    turn: Object.values(ACTS).join('; '),
    [moment]: PLACES[place](attack),
    says,
  };
}

describeResolvers('containment: swaps', (how) => {
  testRows(how, TABLE.map(rowOf));
});
