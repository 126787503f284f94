import { openAction } from '../../core/action.ts'

/** Describes the whole interface. */
export const getOpenApi = openAction(async ({ context, request }) => ({
  status: 200,
  json: await context.openApi(request.mount),
}))
