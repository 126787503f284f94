import path from 'node:path'
import ts from 'typescript'

/** One option that a function of the package takes. */
export interface PublicOption {
  /** From the object of options on: `backups.keep`. */
  path: string
  type: string
  /** Whether its type has undefined: one that narrows or guards has not. */
  mayBeUndefined: boolean
  /** Whether there are none without it. */
  isRequired: boolean
  /** Values that are of no type that it has. */
  wrong: unknown[]
}

/** A function, and one interface of options that it takes. */
export interface PublicOptions {
  /** `BackupManager.restore` */
  name: string
  /** `RestoreOptions` */
  type: string
  /** What stands before the parentheses in a call of it: `new S3ObjectStore`, or `value.restore` of a `BackupManager`. */
  callee: string
  /** The class whose object `value` is; undefined for a function, a constructor and a static method. */
  owner: string | undefined
  /** How many arguments precede them. */
  position: number
  /** Whether it takes a list of such objects. */
  isList: boolean
  options: PublicOption[]
}

const ROOT = path.join(import.meta.dirname, '..', '..', '..')
const MODULES = { index: path.join(ROOT, 'src/index.ts'), testing: path.join(ROOT, 'src/testing/index.ts') }

/** Every function of the package that takes an object of options, found by TypeScript in what the package exports. */
export function publicOptions(): PublicOptions[] {
  const program = programOf(Object.values(MODULES))
  const walk = new Walk(program.getTypeChecker())
  return Object.values(MODULES).flatMap((file) => walk.module(program.getSourceFile(file) as ts.SourceFile))
}

/** The lines of a program that TypeScript refuses, counted from 0, without `exactOptionalPropertyTypes`. */
export function refusedLines(lines: readonly string[]): Set<number> {
  const file = path.join(ROOT, 'test/package/as-a-program-writes-them.ts')
  const head = `import * as index from ${JSON.stringify(MODULES.index)}; import * as testing from ${JSON.stringify(MODULES.testing)}; void [index, testing]`
  const program = programOf([file], new Map([[file, [head, ...lines].join('\n')]]))
  const source = program.getSourceFile(file) as ts.SourceFile
  const diagnostics = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
  return new Set(diagnostics.map(({ start = 0 }) => source.getLineAndCharacterOfPosition(start).line - 1))
}

function programOf(files: string[], texts = new Map<string, string>()): ts.Program {
  const { config } = ts.readConfigFile(path.join(ROOT, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, ROOT)
  if (texts.size > 0) Object.assign(options, { exactOptionalPropertyTypes: false, noUnusedLocals: false })
  const host = ts.createCompilerHost(options)
  const { readFile, fileExists, getSourceFile } = host
  host.readFile = (name) => texts.get(name) ?? readFile(name)
  host.fileExists = (name) => texts.has(name) || fileExists(name)
  host.getSourceFile = (name, version, ...rest) => {
    const text = texts.get(name)
    return text === undefined
      ? getSourceFile(name, version, ...rest)
      : ts.createSourceFile(name, text, version)
  }
  return ts.createProgram(files, options, host)
}

class Walk {
  readonly #checker: ts.TypeChecker
  readonly #seen = new Set<ts.Node>()

  constructor(checker: ts.TypeChecker) {
    this.#checker = checker
  }

  module(file: ts.SourceFile): PublicOptions[] {
    const from = file.fileName === MODULES.testing ? 'testing' : 'index'
    const symbol = this.#checker.getSymbolAtLocation(file) as ts.Symbol
    return this.#checker.getExportsOfModule(symbol).flatMap((exported) => {
      const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0
      const target = isAlias ? this.#checker.getAliasedSymbol(exported) : exported
      return (target.declarations ?? []).flatMap((declaration) =>
        this.#declared(declaration, from, exported.name),
      )
    })
  }

  #declared(declaration: ts.Declaration, from: string, name: string): PublicOptions[] {
    if (this.#seen.has(declaration)) return []
    this.#seen.add(declaration)
    if (ts.isFunctionDeclaration(declaration))
      return this.#taken(declaration, name, `${from}.${name}`, undefined)
    if (!ts.isClassDeclaration(declaration)) return []
    return declaration.members.flatMap((member) => {
      if (isInternal(member)) return []
      if (ts.isConstructorDeclaration(member))
        return this.#taken(member, `new ${name}`, `new ${from}.${name}`, undefined)
      if (!ts.isMethodDeclaration(member) || ts.isPrivateIdentifier(member.name)) return []
      const method = member.name.getText()
      const isStatic = ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Static
      return isStatic
        ? this.#taken(member, `${name}.${method}`, `${from}.${name}.${method}`, undefined)
        : this.#taken(member, `${name}.${method}`, `value.${method}`, `${from}.${name}`)
    })
  }

  #taken(
    declaration: ts.FunctionDeclaration | ts.ConstructorDeclaration | ts.MethodDeclaration,
    name: string,
    callee: string,
    owner: string | undefined,
  ): PublicOptions[] {
    // Of overloads, the one that runs: it has the types as they are declared.
    if (declaration.body === undefined) return []
    return declaration.parameters.flatMap((parameter, position) => {
      const type = this.#checker.getTypeAtLocation(parameter)
      return constituents(type).flatMap((one) => {
        const isList = this.#checker.isArrayType(one)
        const taken = isList ? this.#checker.getTypeArguments(one as ts.TypeReference)[0] : one
        if (taken === undefined || !this.#isOptions(taken)) return []
        if (!this.#checker.getPropertiesOfType(taken).some(isOptional)) return []
        const typeName = taken.aliasSymbol?.name ?? taken.symbol.name
        const shown = typeName === '__type' ? 'options' : typeName
        const options = this.#optionsOf(taken, '', parameter)
        return [{ name, type: shown, callee, owner, position, isList, options }]
      })
    })
  }

  #optionsOf(type: ts.Type, at: string, where: ts.Node): PublicOption[] {
    return this.#checker.getPropertiesOfType(type).flatMap((property) => {
      if ((property.declarations ?? []).some(isInternal)) return []
      const own = this.#checker.getTypeOfSymbolAtLocation(property, where)
      const shown = this.#checker.typeToString(own, where, ts.TypeFormatFlags.NoTruncation)
      const option = {
        path: at + property.name,
        type: shown.replaceAll(/import\("[^"]*"\)\./g, ''),
        mayBeUndefined: / \| undefined$/.test(shown),
        isRequired: !isOptional(property),
        wrong: this.#wrongFor(own),
      }
      const groups = constituents(own).filter((one) => this.#isOptions(one))
      return [option, ...groups.flatMap((group) => this.#optionsOf(group, `${at}${property.name}.`, where))]
    })
  }

  /** Whether an object is data of ours: no list, no function, no object that is used by its methods. */
  #isOptions(type: ts.Type): boolean {
    if ((type.flags & ts.TypeFlags.Object) === 0 || type.isClass()) return false
    if (type.getCallSignatures().length > 0 || this.#checker.isArrayLikeType(type)) return false
    const declarations = this.#checker.getPropertiesOfType(type).flatMap((each) => each.declarations ?? [])
    const isOurs = (each: ts.Declaration) =>
      ts.isPropertySignature(each) && each.getSourceFile().fileName.startsWith(path.join(ROOT, 'src'))
    return declarations.length > 0 && declarations.every(isOurs)
  }

  #wrongFor(type: ts.Type): unknown[] {
    const all = constituents(type)
    const has = (flags: ts.TypeFlags) => all.some((one) => (one.flags & flags) !== 0)
    const wrong: unknown[] = [Symbol('wrong')]
    if (!has(ts.TypeFlags.String)) wrong.push('no', '')
    if (!has(ts.TypeFlags.NumberLike)) wrong.push(1, 0)
    if (!has(ts.TypeFlags.BooleanLike)) wrong.push(true, false)
    if (!has(ts.TypeFlags.Null)) wrong.push(null)
    if (!all.some((one) => one.getCallSignatures().length > 0)) wrong.push(() => {})
    if (!all.some((one) => this.#isOptions(one) || isRecord(one))) wrong.push({})
    if (!all.some((one) => this.#checker.isArrayLikeType(one))) wrong.push([1])
    return wrong
  }
}

function constituents(type: ts.Type): ts.Type[] {
  return (type.isUnion() ? type.types : [type]).filter(({ flags }) => (flags & ts.TypeFlags.Undefined) === 0)
}

function isOptional(symbol: ts.Symbol): boolean {
  return (symbol.flags & ts.SymbolFlags.Optional) !== 0
}

function isRecord(type: ts.Type): boolean {
  return type.getStringIndexType() !== undefined
}

function isInternal(node: ts.Node): boolean {
  return ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'internal')
}
