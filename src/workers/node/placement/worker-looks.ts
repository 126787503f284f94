import type { CollectedLogs, CollectedLook, CollectLimits } from '../../../backup/changes/log/cell-log.ts'
import type { PackedPiece } from '../../../backup/changes/log/packed-logs.ts'
import type { Clock } from '../../../base/clock.ts'
import type { WorkerHandle } from '../processes/worker-process.ts'

/** A worker that is busy for so long is left out: a tick must not wait for somebody's statement. */
const ANSWER_MS_MAX = 5_000
/** While somebody waits for a cell. A worker that runs no long statement has answered by then. */
const HURRIED_MS_MAX = 200

/** A worker is asked once at a time. One that is in a statement answers after it: the next look takes that. */
interface Question {
  worker: WorkerHandle
  /** In which it was asked. */
  look: number
  /** Cells that the worker had closed by then. */
  closed: number
  over: Promise<void>
  isOver: boolean
  /** Undefined if the worker has ended, or could not look. */
  answer: CollectedLogs<PackedPiece> | undefined
}

/** Looks at what the cells of all workers have not shipped, one after the other. */
export class WorkerLooks {
  readonly #clock: Clock
  readonly #open = new Map<WorkerHandle, Question>()
  #looks = 0
  #hurry: () => void = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The look that is under way waits for no worker that takes long. */
  hurry(): void {
    this.#hurry()
  }

  /** Each worker gets an equal part of the limits. */
  async collect(
    workers: readonly WorkerHandle[],
    limits: CollectLimits,
  ): Promise<CollectedLook<PackedPiece>> {
    const { awaited = [] } = limits
    const asOf = this.#clock.now()
    const look = ++this.#looks
    const part = (max: number) => Math.max(1, Math.floor(max / Math.max(workers.length, 1)))
    const own = { ...limits, cellsMax: part(limits.cellsMax), bytesMax: part(limits.bytesMax) }
    const questions = workers.map((worker) => this.#open.get(worker) ?? this.#ask(worker, look, own))
    await this.#answers(questions, limits.isHurried === true)
    const known = questions.filter((each) => isValid(each, look))
    this.#forget(questions)
    const answers = known.map(({ answer }) => answer as CollectedLogs<PackedPiece>)
    return {
      logs: answers.flatMap(({ logs }) => logs),
      isAll: known.length === questions.length && answers.every(({ isAll }) => isAll),
      hasMore: answers.some(({ hasMore }) => hasMore),
      withoutHistory: answers.flatMap(({ withoutHistory }) => withoutHistory),
      withoutHistoryCount: answers.reduce((sum, answer) => sum + answer.withoutHistoryCount, 0),
      unreadable: answers.flatMap(({ unreadable }) => unreadable),
      asOf: Math.min(asOf, ...answers.map((answer) => answer.asOf)),
      allAsOf: null,
      look,
      askedIn: Math.min(look, ...known.map((each) => each.look)),
      complete: completeOf(awaited, questions, look),
    }
  }

  #ask(worker: WorkerHandle, look: number, limits: CollectLimits): Question {
    const question: Question = {
      worker,
      look,
      closed: worker.cellsClosed,
      over: Promise.resolve(),
      isOver: false,
      answer: undefined,
    }
    const note = (answer?: CollectedLogs<PackedPiece>) => Object.assign(question, { isOver: true, answer })
    question.over = worker.collectLogs(limits).then(
      (answer) => void note(answer),
      () => void note(),
    )
    this.#open.set(worker, question)
    return question
  }

  /** Resolves once all have answered, or some take too long. */
  async #answers(questions: readonly Question[], isHurried: boolean): Promise<void> {
    const begun = this.#clock.monotonic()
    const late = Promise.withResolvers<void>()
    let timer = this.#clock.setTimer(late.resolve, isHurried ? HURRIED_MS_MAX : ANSWER_MS_MAX)
    this.#hurry = () => {
      timer.cancel()
      const left = begun + HURRIED_MS_MAX - this.#clock.monotonic()
      timer = this.#clock.setTimer(late.resolve, Math.max(0, left))
    }
    await Promise.race([Promise.all(questions.map(({ over }) => over)), late.promise])
    this.#hurry = () => {}
    timer.cancel()
  }

  /** An answer counts once. What is open goes on in the next look. */
  #forget(questions: readonly Question[]): void {
    this.#open.clear()
    for (const each of questions) if (!each.isOver) this.#open.set(each.worker, each)
  }
}

/** An answer from before may name what another process has shipped meanwhile, if the worker has given a cell away. */
function isValid(question: Question, look: number): boolean {
  const isOfThisLook = question.look === look
  return question.answer !== undefined && (isOfThisLook || question.worker.cellsClosed === question.closed)
}

/** For each wanted cell of which everything is collected, the look in which its workers were asked. */
function completeOf(
  awaited: readonly string[],
  questions: readonly Question[],
  look: number,
): Record<string, number> {
  const complete: Record<string, number> = {}
  for (const cellId of awaited) {
    const users = questions.filter(({ worker }) => worker.mayHaveUsed(cellId))
    const isComplete = users.every(
      (each) => isValid(each, look) && each.answer?.complete.includes(cellId) === true,
    )
    if (isComplete) complete[cellId] = Math.min(look, ...users.map((each) => each.look))
  }
  return complete
}
