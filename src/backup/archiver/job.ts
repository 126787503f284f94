/** Backups and restores have slots of their own: many uploads hold up no restore. */
export const LANES = ['restore', 'backup'] as const
export type Lane = (typeof LANES)[number]

/** Who needs a job, the most urgent first: a request that waits for its cell, a request for the job itself, or nobody. */
export const NEEDS = ['waiting', 'requested', 'background'] as const
export type Need = (typeof NEEDS)[number]

export interface JobRequest {
  lane: Lane
  cellId: string
  /** Whose turn the job takes; the owner's own jobs have the empty one. */
  account: string
  need: Need
}

/** A backup or a restore in the queue. */
export class Job {
  readonly request: JobRequest
  need: Need
  /** It has had a turn: no other job of its cell runs until its end. */
  hasBegun = false
  isLarge = false
  /** Called at its turn. */
  begin: () => void = () => {}

  constructor(request: JobRequest) {
    this.request = request
    this.need = request.need
  }
}
