/** The rules of the protocol. The test takes away one after the other, and an invariant must break. */
export const RULES = {
  // Leases
  'lease after the work': 'C4: the lease is checked after the work, before the answer.',
  'lease from the start': 'A lease runs from the start of the beat or look, not from its answer.',
  'monotonic clock': 'A lease has ended if the monotonic clock says so,',
  'wall clock': 'or the wall clock,',
  'boot clock': 'or the clock that counts since the boot.',
  'beats name the living': 'A beat succeeds only for a row of its epoch that is alive.',
  'look after an incarnation': 'After another incarnation of PostgreSQL, beats count only after a clean look',
  'look begins after it': 'that began after the node had learnt of it.',

  // The log
  'look after the PUT': 'C3: what was put counts after a clean look',
  'look begins after the PUT': 'that began after the answer of the PUT.',
  'reads show what counts': 'A read shows nothing that does not count yet.',

  // Take-over of W by T
  'watch for TTL': '(1) The counter of W has not moved for TTL',
  'watch from the answer': 'since the answer in which T saw it first.',
  'known to be dead': 'Only for a process that is surely dead, T does not wait.',
  'watch one incarnation': 'The watch begins anew in another incarnation of PostgreSQL.',
  'compare the counter': '(2) W is declared dead by compare-and-set on its counter.',
  'declare dead': 'Nothing goes on before W is declared dead.',
  'own fence': '(3) T puts `ended/<epoch of W>`.',
  'confirm after the fence': 'PostgreSQL still says so, in the same incarnation, after that object is there.',
  'wait for L': '(4) T waits L',
  'wait from the answer': 'since the answer of that PUT,',
  'wait by the monotonic clock': 'by its monotonic clock.',
  'read after the fence': 'C2: the end of the log of W is read after that object is there.',
  'each tenure has an end': 'C5: `assign/<n>` names the end of each earlier tenure; the log beyond is void,',
  'versions have an end': 'and so are the versions.',
  'each tenure has a beginning': 'It begins where the one that its epoch had before has ended.',
  'no range to the ended': 'No range goes to an epoch whose fence is there.',
  'data of one tenure': 'What a node has of an earlier tenure is not used in a later one of its own.',
  'assign is create-only': 'C1: (5) `assign/<n>` is put only if it is not there.',
  'derive again': 'If it is there, the table is derived again from the newest one.',

  // A planned move
  'a moving range stops': 'A range that moves is not served',
  'wait for own PUTs': 'and its end is told after all PUTs of the source have been answered and count.',
  'a move is taken back': 'A range is served again only after the number of its `assign/<n>` is taken.',
  'a start takes a number':
    'A process cannot know what the one before has sent: it serves the ranges of its directory only after it has taken the next number.',

  // Removal
  'remove what is covered': 'C9: a log object goes only if a version has all of it',
  'covers count': 'that counts: a clean look has followed its PUT.',
  'all ranges are covered': 'The log of W goes only if the new owners of all its ranges have such versions.',

  // The catalog
  'catalog goes forward': 'C6: a replica never takes an older version,',
  'one history': 'and never takes changes that do not continue its own.',
  'only a reconciled head': 'Nobody changes the catalog before the head has the incarnation of PostgreSQL.',
  'hand in first': 'The head gets it after each living node has handed in its tail,',
  'hand in for this incarnation': 'for this incarnation,',
  'all fences are known': 'after each epoch of the bucket has a row or has ended,',
  'bucket hands in': 'and after the tail that the newest catalog in the bucket has.',
  'row before catch-up': 'Who joins makes its row first, and then catches up,',
  'join a reconciled head': 'with a head that has the incarnation of PostgreSQL.',

  // A revocation
  'wait for the living': 'C7: a revocation is answered after each living node has confirmed it.',
  'head has the change':
    'Who that is, is read from a head that has the incarnation of PostgreSQL and the change.',
  'wait for the dying': 'A node that was declared dead counts as living until it is gone,',
  'silent ones are fenced': 'that is: until its own fence is there, and L has passed.',
  'revocation in the bucket': 'The change is in the bucket before the answer.',
} as const

export type Rule = keyof typeof RULES

/** The rules that hold. */
export class Protocol {
  readonly #without: Rule | null
  /** Whether beats and looks take time to arrive. If not, only their answers do: a late arrival only makes a lease shorter. */
  readonly delays: boolean

  constructor(without: Rule | null, delays: boolean) {
    this.#without = without
    this.delays = delays
  }

  has(rule: Rule): boolean {
    return this.#without !== rule
  }
}
