import fs from 'node:fs'
import path from 'node:path'
import { PROJECT } from './run.ts'

/** A program that stands whole on a page: a block of code whose first line is a comment with the file's name. */
export interface PageProgram {
  file: string
  text: string
  /** What the comments after `console.log` say that it prints, line by line. */
  prints: string[]
}

const BLOCK = /^```(?:\w+)\n(.*?)^```$/gms
const NAME = /^(?:\/\/|#) ([\w.-]+\.(?:ts|js|mjs|cjs|sh))\b/
const PRINTED = /\bconsole\.log\(.*\) \/\/ (.*)$/gm

export function programsOf(page: string): PageProgram[] {
  return blocksOf(page).flatMap((text) => {
    const file = NAME.exec(text)?.[1]
    if (file === undefined) return []
    return [{ file, text, prints: [...text.matchAll(PRINTED)].map(([, printed = '']) => printed) }]
  })
}

/** Every block of code. */
export function blocksOf(page: string): string[] {
  const markdown = fs.readFileSync(path.join(PROJECT, page), 'utf8')
  return [...markdown.matchAll(BLOCK)].map(([, text = '']) => text)
}
