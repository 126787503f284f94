import fs from 'node:fs'
import path from 'node:path'
import ts from 'typescript'

/** A source file as the rules see it; made from disk, or from text where a test plants a violation. */
export interface Source {
  /** Relative to the project, with forward slashes: `src/base/clock.ts`. */
  path: string
  text: string
  ast: ts.SourceFile
  imports: Import[]
}

export interface Import {
  specifier: string
  /** The project file that a relative specifier names. */
  target: string | undefined
  typeOnly: boolean
  /** The names taken, as the module spells them: `default`, and `*` for all, among them. */
  names: string[]
  line: number
}

const PROJECT = path.join(import.meta.dirname, '..', '..')

/** Every TypeScript and JavaScript file below the given folders of the project. */
export function readSources(folders: readonly string[]): Source[] {
  return (
    folders
      .flatMap((folder) => fs.globSync(`${folder}/**/*.{ts,tsx,mts,js,mjs}`, { cwd: PROJECT }))
      .map((file) => file.split(path.sep).join('/'))
      // bench/peers/ has packages of its own.
      .filter((file) => !file.includes('/node_modules/'))
      .sort()
      .map((file) => parseSource(file, readProjectFile(file)))
  )
}

export function readProjectFile(file: string): string {
  return fs.readFileSync(path.join(PROJECT, file), 'utf8')
}

export function parseSource(file: string, text: string): Source {
  const ast = ts.createSourceFile(file, text, ts.ScriptTarget.ESNext, true)
  return { path: file, text, ast, imports: importsOf(ast) }
}

export function lineOf(ast: ts.SourceFile, node: ts.Node): number {
  return ast.getLineAndCharacterOfPosition(node.getStart(ast)).line + 1
}

export function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node)
  ts.forEachChild(node, (child) => walk(child, visit))
}

function importsOf(ast: ts.SourceFile): Import[] {
  const imports: Import[] = []
  const add = (node: ts.Node, specifier: ts.Node | undefined, typeOnly: boolean, names: string[]) => {
    if (specifier === undefined || !ts.isStringLiteralLike(specifier)) return
    const target = specifier.text.startsWith('.')
      ? path.posix.join(path.posix.dirname(ast.fileName), specifier.text)
      : undefined
    imports.push({ specifier: specifier.text, target, typeOnly, names, line: lineOf(ast, node) })
  }
  walk(ast, (node) => {
    if (ts.isImportDeclaration(node)) {
      const bindings = node.importClause?.namedBindings
      const named = bindings !== undefined && ts.isNamedImports(bindings) ? [...bindings.elements] : []
      const clauseIsType = node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword
      const allNamedAreTypes = named.length > 0 && named.every((element) => element.isTypeOnly)
      const typeOnly = clauseIsType || (allNamedAreTypes && node.importClause?.name === undefined)
      const values = typeOnly ? named : named.filter((element) => !element.isTypeOnly)
      const whole = bindings !== undefined && ts.isNamespaceImport(bindings) ? ['*'] : []
      const byDefault = node.importClause?.name === undefined ? [] : ['default']
      add(node, node.moduleSpecifier, typeOnly, [...byDefault, ...whole, ...values.map(importedName)])
    } else if (ts.isExportDeclaration(node)) {
      const named =
        node.exportClause && ts.isNamedExports(node.exportClause) ? [...node.exportClause.elements] : []
      const all = node.exportClause === undefined || ts.isNamespaceExport(node.exportClause) ? ['*'] : []
      add(node, node.moduleSpecifier, node.isTypeOnly, [...all, ...named.map(importedName)])
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node, node.arguments[0], false, ['*'])
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node, node.argument.literal, true, [])
    }
  })
  return imports
}

function importedName(element: ts.ImportSpecifier | ts.ExportSpecifier): string {
  return (element.propertyName ?? element.name).text
}

/** Names that the file declares or imports itself, in any scope: such a `Request` is not the global one. */
function declaredNames(ast: ts.SourceFile): Set<string> {
  const names = new Set<string>()
  walk(ast, (node) => {
    const name = (node as Partial<ts.NamedDeclaration>).name
    const declares =
      ts.isVariableDeclaration(node) ||
      ts.isParameter(node) ||
      ts.isBindingElement(node) ||
      ts.isFunctionDeclaration(node) ||
      ts.isClassDeclaration(node) ||
      ts.isInterfaceDeclaration(node) ||
      ts.isTypeAliasDeclaration(node) ||
      ts.isTypeParameterDeclaration(node) ||
      ts.isImportSpecifier(node) ||
      ts.isImportClause(node) ||
      ts.isNamespaceImport(node)
    if (declares && name !== undefined && ts.isIdentifier(name)) names.add(name.text)
  })
  return names
}

/** Uses of globals, dotted where a member is taken: `Date.now`, `setTimeout`, `globalThis.setTimeout` as `setTimeout`. */
export function globalUses(source: Source): { name: string; node: ts.Node }[] {
  const declared = declaredNames(source.ast)
  const uses: { name: string; node: ts.Node }[] = []
  walk(source.ast, (node) => {
    if (!ts.isIdentifier(node) || isMemberOrKey(node) || declared.has(node.text)) return
    const members = [node.text]
    let use: ts.Node = node
    while (ts.isPropertyAccessExpression(use.parent) && use.parent.expression === use) {
      use = use.parent
      members.push((use as ts.PropertyAccessExpression).name.text)
    }
    if (members[0] === 'globalThis') members.shift()
    uses.push({ name: members.join('.'), node: use })
  })
  return uses
}

/** True for the `b` of `a.b`, `{ b: 1 }`, `class { b() {} }`, `{ b as c }`: a name, but no reference. */
function isMemberOrKey(node: ts.Identifier): boolean {
  const parent = node.parent
  if (ts.isPropertyAccessExpression(parent)) return parent.name === node
  if (ts.isQualifiedName(parent)) return parent.right === node
  if (ts.isShorthandPropertyAssignment(parent)) return false
  if (ts.isImportSpecifier(parent) || ts.isExportSpecifier(parent)) return true
  return (parent as Partial<ts.NamedDeclaration>).name === node
}
