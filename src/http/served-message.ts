import { IncomingMessage } from 'node:http'

/**
 * A request that our own server has received. Nobody else reads its body: the memory of each piece can be given back as soon as the
 * piece is copied. Elsewhere other code may keep the pieces, or may have made them.
 */
export class ServedMessage extends IncomingMessage {}
