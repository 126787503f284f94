import fs from 'node:fs'

/** Writes to standard output at once. It is full while a busy test reads nothing of it. */
export function writeOut(text: string): void {
  for (;;) {
    try {
      fs.writeSync(1, text)
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}
