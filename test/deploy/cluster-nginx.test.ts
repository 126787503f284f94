import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { hasNginx } from '../support/nginx.ts'
import { PROJECT } from '../support/package/run.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const CONFIGURATION = fs.readFileSync(path.join(PROJECT, 'deploy/cluster/nginx.conf'), 'utf8')

test.skipIf(!hasNginx)('nginx takes the configuration for a cluster', () => {
  const folder = tempDirectory('cellstore-cluster-nginx')
  const file = path.join(folder, 'nginx.conf')
  const text = CONFIGURATION.replace(/^\s*ssl_certificate.*$/gm, '')
    .replace('listen 443 ssl;', 'listen 127.0.0.1:8443;')
    .replace('/run/nginx.pid', `${folder}/pid`)
    .replace('/var/log/nginx/error.log', `${folder}/error.log`)
    .replace('http {', `http { client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;`)
  fs.writeFileSync(file, text)
  const { status, stderr } = spawnSync('nginx', ['-t', '-c', file], {
    encoding: 'utf8',
    env: { PATH: '/usr/sbin:/usr/bin' },
  })
  expect(stderr).toContain('syntax is ok')
  expect(status).toBe(0)
})

test('what nodes say to each other comes through no proxy', () => {
  expect(CONFIGURATION).toMatch(/location \/internal\/ \{\s+return 404;/)
  expect(CONFIGURATION).toContain('proxy_set_header cellstore-forwarded "";')
})
