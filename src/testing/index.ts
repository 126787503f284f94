// cellstore/testing: for the tests of programs that use cellstore. It imports the rest of the package as a program would, so that
// both have the same types.

export { SteppedClock } from './stepped-clock.ts'
export { type TemporaryStore, temporaryStore } from './temporary-store.ts'
