import { Counter, Gauge, type Histogram, Registry } from 'prom-client'
import {
  type HistogramSample,
  METRIC_DEFINITIONS,
  type MetricDefinition,
  type NodeReadings,
  type Sample,
} from './definitions.ts'

/** The metrics of a node in Prometheus' text format. A registry of its own for each text: nothing is shared or left over. */
export async function prometheusText(node: NodeReadings): Promise<string> {
  const registry = new Registry()
  for (const definition of METRIC_DEFINITIONS) register(registry, definition, node)
  return await registry.metrics()
}

function register(registry: Registry, definition: MetricDefinition, node: NodeReadings): void {
  if (definition.type === 'histogram') {
    registerHistogram(registry, definition, definition.read(node))
    return
  }
  const { name, help, labels } = definition
  const about = { name, help, labelNames: labels, registers: [registry] }
  const samples: readonly Sample[] = definition.read(node)
  if (definition.type === 'counter') {
    const counter = new Counter(about)
    for (const sample of samples) counter.inc({ ...sample.labels }, sample.value)
    return
  }
  const gauge = new Gauge(about)
  // Without labels, a gauge starts with 0: that would be a value where there is none.
  if (samples.length === 0) gauge.remove()
  for (const sample of samples) gauge.set({ ...sample.labels }, sample.value)
}

/** The counts are there already: prom-client's own histogram takes single observations, on the path of every request. */
function registerHistogram(
  registry: Registry,
  { name, help }: Pick<MetricDefinition, 'name' | 'help'>,
  samples: readonly HistogramSample[],
): void {
  const values = samples.flatMap(({ labels, buckets, sum, count }) => [
    ...buckets.map(({ le, value }) => ({ metricName: `${name}_bucket`, labels: { ...labels, le }, value })),
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ])
  const metric = { name, get: async () => ({ name, help, type: 'histogram', values, aggregator: 'sum' }) }
  registry.registerMetric(metric as unknown as Histogram)
}
