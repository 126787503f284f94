import fs from 'node:fs'

/** In /proc/self/stat, counted from the state, which follows the program's name in parentheses. */
const ENV_START = 47
const ENV_END = 48
const ERASED = 0x78 // x

/**
 * Overwrites a variable's value in the block that this process was started with: /proc/<pid>/environ shows that block to
 * the user of the process and to root, whatever was deleted since. Works on Linux; elsewhere, and where the system does
 * not allow it, nothing happens. Delete the variable from `process.env` before: the C library must not read it any more.
 */
export function eraseInitialVariable(name: string): void {
  try {
    const [start, end] = initialBlock()
    const memory = fs.openSync('/proc/self/mem', 'r+')
    try {
      const block = Buffer.alloc(end - start)
      if (fs.readSync(memory, block, 0, block.length, start) === block.length)
        erase(memory, block, start, name)
    } finally {
      fs.closeSync(memory)
    }
  } catch {
    // The value stays visible to the same user and to root, as docs/promises.md says.
  }
}

function initialBlock(): [start: number, end: number] {
  const stat = fs.readFileSync('/proc/self/stat', 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return [Number(fields[ENV_START]), Number(fields[ENV_END])]
}

/** The block is `NAME=value`, each with a zero byte at its end. */
function erase(memory: number, block: Buffer, start: number, name: string): void {
  const prefix = Buffer.from(`${name}=`)
  for (let at = 0; at < block.length; ) {
    const zero = block.indexOf(0, at)
    const end = zero === -1 ? block.length : zero
    if (block.subarray(at, at + prefix.length).equals(prefix)) {
      const value = Buffer.alloc(end - at - prefix.length, ERASED)
      fs.writeSync(memory, value, 0, value.length, start + at + prefix.length)
    }
    at = end + 1
  }
}
