import parse from 'parse-prometheus-text-format'

interface Sample {
  labels?: Record<string, string>
  value?: string
}

interface Family {
  name: string
  help: string
  type: string
  metrics: Sample[]
}

/** Metrics as a parser reads them. It drops the labels of histograms. */
export class ParsedMetrics {
  readonly families: readonly Family[]

  constructor(text: string) {
    this.families = (parse as unknown as (text: string) => Family[])(text)
  }

  family(name: string): Family | undefined {
    return this.families.find((family) => family.name === name)
  }

  /** The value with exactly these labels; undefined if there is none. */
  value(name: string, labels: Record<string, string> = {}): number | undefined {
    const wanted = JSON.stringify(Object.entries(labels).sort())
    const found = this.family(name)?.metrics.find(
      (each) => JSON.stringify(Object.entries(each.labels ?? {}).sort()) === wanted,
    )
    return found?.value === undefined ? undefined : Number(found.value)
  }
}
