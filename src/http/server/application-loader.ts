import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import type { Application } from '../core/application.ts'
import { checkHandlerOptions, type HandlerOptions, warningLogger } from '../handler-options.ts'

/**
 * The application of a handler, for its first request to load: the routes and what checks their bodies take longer to
 * load than the rest of the library, and many programs that use the library serve nothing.
 *
 * @returns gives the same application each time
 * @throws `invalid_setting` for a wrong option, at once
 */
export function applicationLoader(store: CellDirectory, options: HandlerOptions): () => Promise<Application> {
  checkHandlerOptions(options)
  const settings = { ...options }
  const load = async () => {
    try {
      const { Application } = await import('../core/application.ts')
      return new Application(store, settings)
    } catch (err) {
      // The next request tries again.
      loading = undefined
      const logger = settings.logger ?? warningLogger
      logger.error({ err }, 'The HTTP interface could not be loaded.')
      throw err
    }
  }
  let loading: Promise<Application> | undefined
  return () => {
    loading ??= load()
    return loading
  }
}
