#!/usr/bin/env node
// The command's first file. It must parse and run on an old Node.js, so it imports nothing that needs a new one until it
// knows the version. The rest of the command is a chunk of its own, which is loaded after that.
import { isSupportedNode } from '../base/machine/runtime.ts'
import { nodeOptions } from '../base/machine/v8-options.ts'

const EXIT_MS_MAX = 2_000

if (isSupportedNode(process.versions.node)) {
  if (process.argv[2] === 'serve') beginAgainWithOptions()
  const { main } = await import('./main.ts')
  process.exitCode = await main(process.argv.slice(2))
  // A command that is done ends, even if a library still holds something open.
  setTimeout(() => process.exit(), EXIT_MS_MAX).unref()
} else {
  process.stderr.write(
    `cellstore needs Node.js 22.15 or newer; this is ${process.versions.node}. Install a newer Node.js. In a clone of the project you can also run \`npm ci\`, which installs one, and then \`npm start\` or \`npm run cellstore -- <command>\`.\n`,
  )
  process.exitCode = 1
}

/**
 * Node.js takes these options only at the start of a process. For the system this one stays the same: its id, its parent, its standard
 * streams. Without them a node is slower beside large requests and takes more memory, and nothing else.
 */
function beginAgainWithOptions(): void {
  const { execArgv, execPath, argv, env } = process
  const options = nodeOptions(...execArgv, env['NODE_OPTIONS'])
  if (options.length > 0 && mayBeginAgain([...execArgv, env['NODE_OPTIONS']].join(' ')))
    process.execve?.(execPath, [execPath, ...execArgv, ...options, ...argv.slice(1)], env)
}

/** Windows has no such call, a channel to the parent would be lost, a debugger would see two starts, and permissions may forbid it. */
function mayBeginAgain(given: string): boolean {
  return (
    process.platform !== 'win32' && process.send === undefined && !/--(inspect|[\w-]*permission)/.test(given)
  )
}
