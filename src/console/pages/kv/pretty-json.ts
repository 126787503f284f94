const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g

/**
 * JSON with a line for each value. Its tokens stay as they are: numbers keep all digits.
 *
 * @returns undefined for what is no JSON
 */
export function prettyJson(text: string): string | undefined {
  try {
    JSON.parse(text)
  } catch {
    return undefined
  }
  const tokens = text.match(TOKEN) ?? []
  let depth = 0
  const line = () => `\n${'  '.repeat(depth)}`
  return tokens
    .map((token, at) => {
      if (token === '{' || token === '[') {
        if (tokens[at + 1] === '}' || tokens[at + 1] === ']') return token
        depth++
        return token + line()
      }
      if (token === '}' || token === ']') {
        if (tokens[at - 1] === '{' || tokens[at - 1] === '[') return token
        depth--
        return line() + token
      }
      if (token === ',') return token + line()
      return token === ':' ? ': ' : token
    })
    .join('')
}
