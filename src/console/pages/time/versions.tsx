import { age, bytes, moment } from '../../parts/format.ts'
import { PagedTable } from '../../parts/paged-table.tsx'
import { shortName, type Version } from './history.ts'

/** The stored versions of a cell. */
export function Versions({
  versions,
  onChoose,
}: {
  versions: readonly Version[]
  onChoose: (version: Version) => void
}) {
  return (
    <section class="versions" aria-label="Versions">
      <h2>Versions</h2>
      <PagedTable
        label="Stored versions"
        rows={versions}
        keyOf={({ version }) => version}
        columns={[
          { name: 'Stored', by: (each) => each.created_at, cell: (each) => moment(each.created_at) },
          { name: 'Age', cell: (each) => age(each.created_at) },
          { name: 'Kind', by: (each) => each.kind, cell: (each) => each.kind },
          {
            name: 'Size',
            by: (each) => each.size_bytes,
            isNumber: true,
            cell: (each) => bytes(each.size_bytes),
          },
          { name: 'Version', cell: (each) => <code title={each.version}>{shortName(each.version)}</code> },
          {
            name: 'Actions',
            isQuiet: true,
            cell: (each) => (
              <span class="row-buttons">
                <button
                  type="button"
                  class="quiet"
                  aria-label={`Choose ${shortName(each.version)}`}
                  onClick={() => onChoose(each)}
                >
                  Choose
                </button>
              </span>
            ),
          },
        ]}
      />
      <p class="muted small">
        Versions go by their age, as the plan of the node says. Only its owner sees the plan and pins
        versions: on the machine, <code>cellstore backups plan</code> and <code>cellstore backups pin</code>.
      </p>
    </section>
  )
}
