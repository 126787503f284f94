import { useEffect, useRef } from 'preact/hooks'
import type { Chart } from './chart.ts'

export interface Point {
  /** Milliseconds since 1970. */
  at: number
  /** Null leaves a gap. */
  value: number | null
}

interface LineChartProps {
  title: string
  unit: string
  points: readonly Point[]
}

/** A value over time. Where the chart can not be loaded, its figures are on the page all the same. */
export function LineChart({ title, unit, points }: LineChartProps) {
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<Chart | undefined>(undefined)
  const drawn = useRef(points)
  drawn.current = points
  useEffect(() => {
    let isGone = false
    const load = async () => {
      const { openChart } = await import('./chart.ts')
      if (isGone) return
      chart.current = openChart(place.current as HTMLDivElement, title, unit)
      draw(chart.current, drawn.current)
    }
    load().catch(() => {})
    return () => {
      isGone = true
      chart.current?.close()
    }
  }, [title, unit])
  useEffect(() => {
    if (chart.current !== undefined) draw(chart.current, points)
  }, [points])
  return (
    <section aria-label={title} class="chart">
      <h2>{title}</h2>
      <div ref={place} class="chart-place" />
    </section>
  )
}

function draw(chart: Chart, points: readonly Point[]): void {
  chart.set(
    points.map(({ at }) => at / 1_000),
    points.map(({ value }) => value),
  )
}
