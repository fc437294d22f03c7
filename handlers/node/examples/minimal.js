import { Handler } from 'inboxd';

const handler = new Handler('demo');

handler.on((delivery) => {
  console.log(delivery.event.type, delivery.event.data);
});

await handler.run();
