import path from 'node:path'
import { DiskModel, FileNode, FolderNode, type Node } from './disk-model.ts'
import { type Argument, type Call, descriptorOf, pathOf } from './trace.ts'
import { isProcessCall, PROCESS_CALLS, type TracedProcesses } from './traced-processes.ts'

/** What is recorded of a program so that its disk can be modelled. Calls that change files in other ways are refused. */
export const DISK_CALLS = [
  ...['openat', 'creat', 'open', 'close', 'dup', 'dup2', 'dup3', 'fcntl'],
  ...['write', 'pwrite64', 'writev', 'pwritev', 'pwritev2', 'ftruncate', 'truncate', 'fallocate'],
  ...['copy_file_range', 'sendfile', 'splice', 'fsync', 'fdatasync', 'sync_file_range', 'syncfs', 'sync'],
  ...['rename', 'renameat', 'renameat2', 'link', 'linkat', 'symlink', 'symlinkat', 'unlink', 'unlinkat'],
  ...['mkdir', 'mkdirat', 'rmdir'],
  ...PROCESS_CALLS,
] as const

interface Descriptor {
  node: Node
  /** Where the next write without an offset goes. */
  position: number
  appends: boolean
}

/** A model of the disk below a folder that is empty at first, brought forward by the calls of one process and its children. */
export class RecordedDisk {
  readonly model = new DiskModel()
  readonly #root: string
  readonly #processes: TracedProcesses
  /** By process: each numbers its own. */
  readonly #open = new Map<string, Map<number, Descriptor>>()

  constructor(root: string, processes: TracedProcesses) {
    this.#root = root
    this.#processes = processes
  }

  /** @returns true if the call may have changed what a power loss leaves behind */
  apply(call: Call): boolean {
    if (call.name === 'close') {
      this.#descriptors(call).delete(descriptorOf(call.args[0]))
      return false
    }
    if (call.result < 0 && (call.name === 'fsync' || call.name === 'fdatasync')) {
      const descriptor = this.#descriptorOf(call)
      if (descriptor !== undefined) this.model.failedSync(descriptor.node)
      return descriptor !== undefined
    }
    if (call.result < 0 || isProcessCall(call)) return false
    switch (call.name) {
      case 'openat':
        return this.#openFile(call)
      case 'fcntl':
      case 'dup':
      case 'dup2':
      case 'dup3':
        return this.#duplicate(call)
      case 'write':
      case 'writev':
        return this.#write(call, undefined)
      case 'pwrite64':
      case 'pwritev':
        return this.#write(call, Number(call.args.at(-1)?.text))
      case 'ftruncate':
        return this.#truncate(call)
      case 'fsync':
      case 'fdatasync':
        return this.#sync(call)
      default:
        return this.#changeNames(call)
    }
  }

  #openFile(call: Call): boolean {
    const { args, result, ended } = call
    const place = this.#inside(args[1])
    if (place === undefined) return false
    const flags = args[2]?.text.split('|') ?? []
    let node = this.model.find(place)
    const isNew = node === undefined
    if (node === undefined) {
      if (!flags.includes('O_CREAT')) throw new Error(`A file that was not made: ${place.join('/')}`)
      node = new FileNode()
      this.model.setNames([{ path: place, node }], ended)
    } else if (flags.includes('O_TRUNC') && node instanceof FileNode) {
      node.pending.push({ offset: 0, bytes: undefined, ended })
    }
    this.#descriptors(call).set(result, { node, position: 0, appends: flags.includes('O_APPEND') })
    return isNew || flags.includes('O_TRUNC')
  }

  #duplicate(call: Call): boolean {
    const { name, args, result } = call
    const from = this.#descriptors(call).get(descriptorOf(args[0]))
    if (from === undefined || (name === 'fcntl' && !args[1]?.text.startsWith('F_DUPFD'))) return false
    this.#descriptors(call).set(result, from)
    return false
  }

  #write(call: Call, offset: number | undefined): boolean {
    const descriptor = this.#descriptorOf(call)
    if (descriptor === undefined) return false
    const { node } = descriptor
    const { bytes } = call.args[1] as Argument
    if (!(node instanceof FileNode) || bytes === undefined)
      throw new Error(`A ${call.name} of what is no file`)
    const written = bytes.subarray(0, call.result)
    // Linux appends with pwrite, too.
    const at = descriptor.appends ? node.length : (offset ?? descriptor.position)
    node.pending.push({ offset: at, bytes: written, ended: call.ended })
    if (offset === undefined) descriptor.position = at + written.length
    return true
  }

  #truncate(call: Call): boolean {
    const node = this.#descriptorOf(call)?.node
    if (!(node instanceof FileNode)) return false
    node.pending.push({ offset: Number(call.args[1]?.text), bytes: undefined, ended: call.ended })
    return true
  }

  #sync(call: Call): boolean {
    const descriptor = this.#descriptorOf(call)
    if (descriptor === undefined) return false
    this.model.sync(descriptor.node, call.began)
    return true
  }

  #changeNames(call: Call): boolean {
    const { name, args, ended } = call
    const isAt = name.endsWith('at') || name === 'renameat2'
    const paths = isAt ? [args[1], args[3]] : [args[0], args[1]]
    const [first, second] = paths.map((argument) => this.#inside(argument))
    if (first === undefined && second === undefined) return false
    const node = first && this.model.find(first)
    const gone = first && { path: first, node: undefined }
    switch (name) {
      case 'rename':
      case 'renameat':
      case 'renameat2':
        if (gone === undefined || second === undefined) throw new Error('A rename into or out of the disk')
        this.model.setNames([gone, { path: second, node }], ended)
        return true
      case 'link':
      case 'linkat':
        if (second === undefined || node === undefined) throw new Error('A link into or out of the disk')
        this.model.setNames([{ path: second, node }], ended)
        return true
      case 'unlink':
      case 'unlinkat':
      case 'rmdir':
        if (gone !== undefined) this.model.setNames([gone], ended)
        return true
      case 'mkdir':
      case 'mkdirat':
        if (first !== undefined) this.model.setNames([{ path: first, node: new FolderNode() }], ended)
        return true
      default:
        throw new Error(`${name} is not modelled`)
    }
  }

  /** Of a file below the root; one that the model does not know is an error, not something to overlook. */
  #descriptorOf(call: Call): Descriptor | undefined {
    const descriptor = this.#descriptors(call).get(descriptorOf(call.args[0]))
    const target = pathOf(call)
    if (descriptor === undefined && target.startsWith(`${this.#root}/`))
      throw new Error(`${call.name} of unknown ${target}`)
    return descriptor
  }

  /** Those of the process that makes a call. Nothing of ours hands any to a child. */
  #descriptors({ thread }: Call): Map<number, Descriptor> {
    const process = this.#processes.of(thread)
    let descriptors = this.#open.get(process)
    if (descriptors === undefined) {
      descriptors = new Map()
      this.#open.set(process, descriptors)
    }
    return descriptors
  }

  /** The names on the way from the root to a path; undefined for one that is elsewhere. */
  #inside(argument: Argument | undefined): string[] | undefined {
    const name = argument?.bytes?.toString()
    if (name === undefined || !name.startsWith('/')) return undefined
    const relative = path.relative(this.#root, name)
    if (relative.startsWith('..')) return undefined
    return relative === '' ? [] : relative.split('/')
  }
}
