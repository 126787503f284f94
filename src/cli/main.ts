/** Runs one command. @returns its exit code. */
export async function main(_argv: string[]): Promise<number> {
  process.stderr.write('cellstore: no command is there yet.\n')
  return 1
}
