import uPlot from 'uplot'
import { moment } from '../../parts/format.ts'

export interface Chart {
  /** Times in seconds since 1970, and a value for each. */
  set(times: number[], values: (number | null)[]): void
  close(): void
}

const HEIGHT = 160

/** A line over time, which is as wide as its place. */
export function openChart(place: HTMLElement, label: string, unit: string): Chart {
  const style = getComputedStyle(place)
  const colour = (name: string) => style.getPropertyValue(name)
  const axis = {
    stroke: () => resolved(place, colour('--muted')),
    grid: { stroke: () => resolved(place, colour('--line')), width: 1 },
  }
  const chart = new uPlot(
    {
      width: Math.max(200, place.clientWidth),
      height: HEIGHT,
      cursor: { y: false },
      legend: { show: false },
      series: [
        {},
        {
          label,
          stroke: () => resolved(place, colour('--accent')),
          width: 1.5,
          points: { size: 4 },
          value: (_, value) => (value == null ? '' : `${value.toFixed(1)} ${unit}`),
        },
      ],
      axes: [
        { ...axis, space: 90, values: (_, ticks) => ticks.map((tick) => moment(tick * 1_000).slice(11)) },
        { ...axis, size: 72, values: (_, ticks) => ticks.map((tick) => `${tick} ${unit}`) },
      ],
      scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
    },
    [[], []],
    place,
  )
  const resized = new ResizeObserver(() =>
    chart.setSize({ width: Math.max(200, place.clientWidth), height: HEIGHT }),
  )
  resized.observe(place)
  return {
    set: (times, values) => chart.setData([times, values]),
    close: () => {
      resized.disconnect()
      chart.destroy()
    },
  }
}

/** What a canvas can draw with: it does not know of `light-dark()`. */
function resolved(place: HTMLElement, colour: string): string {
  const probe = document.createElement('span')
  probe.style.color = colour
  place.append(probe)
  const text = getComputedStyle(probe).color
  probe.remove()
  return text
}
