import { assignmentSteps } from './assignments.ts'
import { catalogSteps } from './catalog.ts'
import { leaseSteps } from './leases.ts'
import { logSteps } from './log.ts'
import type { Protocol } from './rules.ts'
import { takeOverSteps } from './take-over.ts'
import type { Step, World } from './world.ts'

/** Steps that no other node or request can come between, under the rules, are one. */
export function stepsFrom(world: World, protocol: Protocol): Step[] {
  return [leaseSteps, logSteps, takeOverSteps, assignmentSteps, catalogSteps].flatMap((steps) =>
    steps(world, protocol),
  )
}
