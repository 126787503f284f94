import fs from 'node:fs'

/** A process and all that it started. */
function tree(pid: number): number[] {
  try {
    const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
    return [pid, ...children.flatMap((child) => tree(Number(child)))]
  } catch {
    return []
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  for (const each of tree(pid)) {
    try {
      process.kill(each, name)
    } catch {
      // It has ended in the meantime.
    }
  }
}

export function isRunning(pid: number): boolean {
  return tree(pid).length > 0
}

/** Takes the processors from a process and all that it started. */
export function stall(pid: number): void {
  signal(pid, 'SIGSTOP')
}

export function resume(pid: number): void {
  signal(pid, 'SIGCONT')
}

/** Ends all that this process started, also what is stopped. */
export function endChildren(): void {
  for (const child of tree(process.pid).slice(1)) {
    try {
      process.kill(child, 'SIGKILL')
    } catch {
      // It has ended in the meantime.
    }
  }
}

export function openFiles(pid: number): number {
  return tree(pid).reduce((sum, each) => sum + fs.readdirSync(`/proc/${each}/fd`).length, 0)
}
