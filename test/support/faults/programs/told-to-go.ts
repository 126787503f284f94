/** Says that it is ready, and waits for the word: strace is attached to the process meanwhile. */
export async function toldToGo(): Promise<void> {
  process.stdout.write('ready\n')
  process.stdin.resume()
  await new Promise((resolve) => process.stdin.once('data', resolve))
  process.stdin.pause()
  process.stdin.unref?.()
}
