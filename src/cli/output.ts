/** Prints a command's one result: the document for scripts, or what a person makes of it. */
export function printResult<T>(document: T, json: boolean | undefined, show: (document: T) => string): void {
  process.stdout.write(`${json === true ? JSON.stringify(document) : show(document)}\n`)
}

/** Says what a person wants to know and a script must not meet on standard output. */
export function printNote(json: boolean | undefined, note: string): void {
  if (json !== true) process.stderr.write(`${note}\n`)
}
