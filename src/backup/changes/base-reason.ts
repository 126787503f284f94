/** Why a cell needs a version with which a history begins. */
export type BaseReason =
  /** It has changed, and has no history, as a new cell. */
  | 'no history'
  /** Nothing continues its versions, as after a restore in place: until then none of its moments can be restored. */
  | 'no chain'
  /** What it had not shipped took too much room. */
  | 'history given up'
  /** The restore had ended its history, and may have left a mark. */
  | 'restore refused'
  /** Old log objects hold what no version does. */
  | 'old log objects'
  /** Another node had the cell: its log is needed until a version of this node holds what is in it. */
  | 'came from another node'
  /** A drill has found its versions damaged. */
  | 'versions damaged'
