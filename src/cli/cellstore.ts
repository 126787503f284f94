#!/usr/bin/env node
// The command's first file. It must parse and run on an old Node, so it imports nothing that needs a new one until the
// version is known: the rest of the command is a chunk of its own, loaded after the question.
import { isSupportedNode } from '../base/runtime.ts'

const EXIT_MS_MAX = 2_000

if (isSupportedNode(process.versions.node)) {
  const { main } = await import('./main.ts')
  process.exitCode = await main(process.argv.slice(2))
  // A command that is done ends, whatever a library of its still holds open.
  setTimeout(() => process.exit(), EXIT_MS_MAX).unref()
} else {
  process.stderr.write(
    `cellstore needs Node.js 22.15 or newer, and this is ${process.versions.node}. Install a newer Node.js; or, in a clone of the project, use \`npm start\` and \`npm run cellstore -- <command>\` after \`npm ci\`, which bring their own.\n`,
  )
  process.exitCode = 1
}
