import ts from 'typescript'

/**
 * Types that a program can reach from the exports of a declaration file, but cannot name, because the file does not
 * export them: as lines `Reached, by Export.member`.
 *
 * @param text one declaration file that holds all of the package's types, as tsup bundles them
 */
export function unnameableTypes(text: string): string[] {
  const file = ts.createSourceFile('index.d.ts', text, ts.ScriptTarget.ESNext, true)
  const declared = declarationsOf(file)
  const exported = exportsOf(file)
  const reached = new Set<string>(exported)
  const unnameable: string[] = []
  // A set takes what is added while it is walked, so that this ends once nothing new is reached.
  for (const name of reached) {
    for (const declaration of declared.get(name) ?? []) {
      for (const used of typesIn(declaration)) {
        if (!declared.has(used) || reached.has(used)) continue
        reached.add(used)
        unnameable.push(`${used}, by ${name}`)
      }
    }
  }
  return unnameable
}

function declarationsOf(file: ts.SourceFile): Map<string, ts.Node[]> {
  const declared = new Map<string, ts.Node[]>()
  const add = (name: ts.Node | undefined, node: ts.Node) => {
    if (name !== undefined && ts.isIdentifier(name)) {
      declared.set(name.text, [...(declared.get(name.text) ?? []), node])
    }
  }
  for (const statement of file.statements) {
    if (ts.isVariableStatement(statement)) {
      for (const declaration of statement.declarationList.declarations) add(declaration.name, declaration)
    } else add((statement as Partial<ts.NamedDeclaration>).name, statement)
  }
  return declared
}

/** By the names that the declarations have in the file. */
function exportsOf(file: ts.SourceFile): string[] {
  return file.statements.flatMap((statement) => {
    if (!ts.isExportDeclaration(statement) || statement.exportClause === undefined) return []
    if (!ts.isNamedExports(statement.exportClause)) return []
    return statement.exportClause.elements.map((element) => (element.propertyName ?? element.name).text)
  })
}

/** A declaration file shows no bodies, and no types of private members: every name in it counts. */
function typesIn(node: ts.Node): string[] {
  const names: string[] = []
  const visit = (child: ts.Node) => {
    if (ts.isTypeReferenceNode(child)) names.push(leftmost(child.typeName))
    else if (ts.isTypeQueryNode(child)) names.push(leftmost(child.exprName))
    else if (ts.isExpressionWithTypeArguments(child) && ts.isIdentifier(child.expression)) {
      names.push(child.expression.text)
    }
    ts.forEachChild(child, visit)
  }
  visit(node)
  return names
}

function leftmost(name: ts.EntityName): string {
  return ts.isIdentifier(name) ? name.text : leftmost(name.left)
}
