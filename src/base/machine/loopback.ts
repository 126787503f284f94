import { BlockList, isIPv6 } from 'node:net'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** Whether an IP address is one of this machine's own, which no other machine can reach. */
export function isLoopback(address: string): boolean {
  return loopback.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}
