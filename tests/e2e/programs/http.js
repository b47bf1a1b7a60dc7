// HTTP with node at either end: `http.js server PORT` or `http.js client PORT`.
const http = require('http');
const crypto = require('crypto');
const [role, port] = [process.argv[2], Number(process.argv[3])];
const digest = (b) => crypto.createHash('sha256').update(b).digest('hex').slice(0, 16);
const body = Buffer.alloc(300000, (i) => i).map((_, i) => (i * 7) % 251);

function serve() {
  http.createServer((req, res) => {
    const parts = [];
    req.on('data', (d) => parts.push(d));
    req.on('end', () => {
      const got = Buffer.concat(parts);
      res.setHeader('X-Got', digest(got));
      res.end(req.url === '/echo' ? got : body);
    });
  }).listen(port, '127.0.0.1');
}

function request(agent, path, data) {
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', path, agent, method: data ? 'POST' : 'GET' };
    const req = http.request(options, (res) => {
      const parts = [];
      res.on('data', (d) => parts.push(d));
      res.on('end', () => {
        const got = Buffer.concat(parts);
        resolve(`${res.statusCode} ${got.length} ${digest(got)} ${res.headers['x-got']}`);
      });
    });
    req.on('error', reject);
    req.end(data);
  });
}

async function ask() {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  for (let i = 0; i < 5; i++) console.log(await request(agent, '/', null));
  const many = [];
  for (let i = 1; i <= 12; i++) many.push(request(agent, '/echo', body.subarray(0, i * 20000)));
  (await Promise.all(many)).forEach((r) => console.log(r));
  console.log(await request(new http.Agent(), '/', null));
  const { execFileSync } = require('child_process');
  console.log(String(execFileSync('echo', ['child'])).trim(), await request(agent, '/echo', Buffer.from('after')));
  agent.destroy();
}

role === 'server' ? serve() : ask();
