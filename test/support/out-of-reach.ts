import fs from 'node:fs'
import path from 'node:path'

/** Puts a file or folder where nobody can look at it until the returned function is called: behind a link that leads to itself. */
export function outOfReach(file: string): () => void {
  fs.renameSync(file, `${file}.away`)
  fs.symlinkSync(path.basename(file), file)
  return () => {
    fs.rmSync(file)
    fs.renameSync(`${file}.away`, file)
  }
}
