import { test } from 'vitest'
import { CellHistory } from '../../../src/backup/changes/cell-history.ts'
import { HistoryModel } from '../../support/backup/history-model.ts'
import { Random } from '../../support/random.ts'

test('x', async () => {
  const model = new HistoryModel(new Random(603665176))
  await model.start()
  const { end, opened } = CellHistory.prototype
  CellHistory.prototype.end = function () {
    console.log('END', new Error().stack?.split('\n').slice(2, 5).join('|'))
    end.call(this)
  }
  CellHistory.prototype.opened = function (d) {
    console.log('opened before', JSON.stringify(this.shipped), d.checkpoints.frames())
    opened.call(this, d)
    console.log('after', JSON.stringify(this.shipped))
  }
  for (let i = 0; i < 0; i++) {
    await model.step()
    console.log(model.steps.at(-1))
  }
  await model.dispose().catch(() => {})
}, 60000)
