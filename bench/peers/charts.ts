import type { Row } from './results.ts'
import { ratio } from './table.ts'

const WIDTH = 480
/** Light and dark pages show the same file. */
const BACKGROUND = 'white'

/** A chart as SVG; undefined if there is nothing to draw. */
export async function ratioChart(title: string, rows: readonly Row[]): Promise<string | undefined> {
  const values = rows.flatMap(({ what, at, unit, contenders }) =>
    Object.entries(contenders).flatMap(([peer, outcome]) => {
      const times = 'absent' in outcome ? undefined : ratio(unit, contenders['cellstore'], outcome)
      if (times === undefined || peer === 'cellstore') return []
      return [{ work: at === undefined ? what : `${what} (${at.toLocaleString('en')})`, peer, times }]
    }),
  )
  if (values.length === 0) return undefined
  const legend = { labelLimit: 200 }
  return await draw({
    title,
    width: WIDTH,
    height: { step: 22 },
    data: { values },
    layer: [
      {
        mark: { type: 'point', filled: true, size: 80 },
        encoding: {
          y: {
            field: 'work',
            type: 'nominal',
            sort: null,
            title: null,
            axis: { labelLimit: 400, grid: true },
          },
          x: {
            field: 'times',
            type: 'quantitative',
            // As wide as the values, and 1 is always in it.
            scale: { type: 'log', nice: false, padding: 12 },
            title: 'how many times as good cellstore is: right of the line it is ahead',
          },
          color: { field: 'peer', type: 'nominal', sort: null, title: 'beside', legend },
          shape: { field: 'peer', type: 'nominal', sort: null, title: 'beside', legend },
        },
      },
      { mark: { type: 'rule', color: 'black' }, encoding: { x: { datum: 1 } } },
    ],
  })
}

/** One line: a cost at several sizes. */
export async function growthChart(title: string, rows: readonly Row[]): Promise<string | undefined> {
  const values = rows.flatMap(({ at, contenders }) => {
    const outcome = contenders['cellstore']
    return outcome === undefined || 'absent' in outcome
      ? []
      : [{ at, cost: outcome.median, min: outcome.min, max: outcome.max }]
  })
  if (values.length === 0) return undefined
  const x = {
    field: 'at',
    type: 'quantitative',
    scale: { type: 'log' },
    title: rows[0]?.of ?? null,
    axis: { format: '~s', values: values.map(({ at }) => at) },
  }
  const y = { field: 'cost', type: 'quantitative', scale: { zero: true }, title: rows[0]?.unit }
  return await draw({
    title,
    width: WIDTH / 2,
    height: 140,
    data: { values },
    layer: [
      { mark: { type: 'line', point: true }, encoding: { x, y } },
      { mark: 'rule', encoding: { x, y: { ...y, field: 'min' }, y2: { field: 'max' } } },
    ],
  })
}

async function draw(specification: object): Promise<string> {
  const [vega, { compile }] = await Promise.all([import('vega'), import('vega-lite')])
  const { spec } = compile({ background: BACKGROUND, ...specification })
  return await new vega.View(vega.parse(spec), { renderer: 'none' }).toSVG()
}
